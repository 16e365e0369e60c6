-- A read-only handle that was opened while nobody had the store open sees what is appended later at once, not when it has reached the file.
local sediment = require "sediment"
local support = require "support"

describe("a read-only handle opened before the writers", function()
  local path

  before_each(function()
    path = support.path()
    local store = support.open(path)
    store:topic("t", {}):append("a", "1")
    store:close()
  end)
  after_each(support.cleanup)

  local function follows(handle)
    assert.equal("a=1", support.words(handle:records()))
    local store = support.open(path)
    local topic = store:topic "t"
    for i = 2, 5 do
      topic:append("b", tostring(i))
      if i == 4 then topic:roll() end
      assert.equal(i, handle:latest())
    end
    assert.equal("a=1 b=2 b=3 b=4 b=5", support.words(handle:records()))
    assert.equal(4, handle:segments()[2].base_offset)
    store:close()
    assert.equal("a=1 b=2 b=3 b=4 b=5", support.words(handle:records()))
  end

  it("of the store", function() follows(support.open(path, { readonly = true }):topic "t") end)
  it("of the partition", function() follows(assert(sediment.open_partition(path .. "/t-0"))) end)

  it("while it reads", function()
    local topic = support.open(path, { readonly = true }):topic "t"
    local store = support.open(path)
    local read = topic:records()
    store:topic("t"):append("b", "2")
    assert.equal("a=1", support.words(read))
    assert.equal("a=1 b=2", support.words(topic:records()))
  end)
end)

-- The control page of a partition is removed or overwritten while a process has the partition open: nobody makes it anew under that one,
-- and what is in the segments stays.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

-- Another process: what it is told of the topic, and what it may append.
local OTHER = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic, _, code = store:topic "t"
print(topic and topic:append("k", "other") or code)
store:close()
]]

describe("the control page of an open partition", function()
  local path, store, topic, page

  before_each(function()
    path = support.path()
    store = assert(sediment.open(path, { background = false, clock = function() return support.now end }))
    topic = store:topic("t", {})
    for i = 1, 5 do topic:append("k", "v" .. i) end
    page = path .. "/t-0/sediment.control"
    support.damaged()
  end)
  after_each(function()
    store:close()
    support.cleanup()
  end)

  local function other()
    local p = assert(io.popen(disk.script(path .. ".lua", OTHER) .. " '" .. path .. "' 2>&1"))
    local said = p:read "*l"
    p:close()
    return said
  end

  it("is not made anew by others when it was removed; who has it goes on and loses nothing", function()
    os.remove(page)
    assert.equal("locked", other())
    assert.equal(5, topic:append("k", "v6"))
    assert.equal("k=v1 k=v2 k=v3 k=v4 k=v5 k=v6", support.words(topic:records()))
    assert(store:close())
    assert.equal("6", other())
  end)

  it("is not written to any more when it was overwritten", function()
    topic:flush()
    disk.write(page, ("\0"):rep(#disk.read(page)))
    assert.equal("locked", other())
    local offset, message, code = topic:append("k", "v6")
    assert.same({ nil, "corrupt" }, { offset, code })
    assert.matches("sediment.control was damaged while it was in use; close the store in every process", message)
    assert.equal("corrupt", select(3, store:close()))
    local reopened = support.open(path)
    assert.equal("k=v1 k=v2 k=v3 k=v4 k=v5", support.words(reopened:topic("t"):records()))
    assert.equal("yes", reopened:topic("t"):append("k", "v6") >= 5 and "yes")
  end)

  it("may be missing where nobody has the partition open", function()
    store:close()
    os.remove(page)
    assert.equal("5", other())
  end)
end)

-- A reader keeps the segment it stands in; who comes later is told what there is.
local support = require "support"

describe("a reader in the middle of a segment that is deleted", function()
  local topic, store

  before_each(function()
    topic, store = support.topic { retention_ms = 1000, file_delete_delay_ms = 0 }
    for i = 0, 99 do topic:append("k" .. i, "v" .. i) end
    topic:roll()
    support.now = support.now + 5000
    for i = 100, 109 do topic:append("k" .. i, "v" .. i) end
  end)
  after_each(support.cleanup)

  it("finishes its iteration", function()
    local n = 0
    for offset, key, value in topic:records() do
      assert(offset == n and key == "k" .. n and value == "v" .. n)
      n = n + 1
      if n == 50 then
        assert.equal(1, topic:retain().segments)
        assert(store:maintain().files_deleted > 0)            -- and its file is unlinked
        assert.equal(100, topic:earliest())
      end
    end
    assert.equal(110, n)
  end)

  it("leaves nothing to later ones", function()
    assert.equal(1, topic:retain().segments)
    local err = support.raised(function() return topic:records { from = 42 } end)
    assert.equal("offset_out_of_range", err.code)
    assert.matches("42", err.message)
    assert.matches("100", err.message)
    assert.matches("110", err.message)
    err = support.raised(function() return topic:records { from = 111 } end)
    assert.matches("100", err.message)
    assert.matches("110", err.message)
    assert.equal(10, #support.collect(topic:records { from = 100 }))
    assert.equal(10, #support.collect(topic:records()))
  end)
end)

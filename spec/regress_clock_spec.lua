-- A clock that steps back delays what goes by it by no more than its time from then on.
local support = require "support"

describe("after the clock stepped back", function()
  after_each(support.cleanup)

  it("flush.ms counts from the new time", function()
    local topic, store = support.topic { flush_ms = 1000, retention_ms = -1 }
    local function durable() return topic:stats().partitions[0].durable_offset end
    topic:append("k", "v", { timestamp = support.now })
    support.now = support.now - 10 ^ 9
    assert.equal(0, store:maintain().flushed)
    assert.equal(0, durable())
    support.now = support.now + 999
    assert.equal(0, store:maintain().flushed)
    support.now = support.now + 1
    assert.equal(1, store:maintain().flushed)
    assert.equal(1, durable())
    support.now = support.now - 10 ^ 6                   -- nothing waits: nothing is due
    assert.equal(0, store:maintain().flushed)
    topic:append("k", "v", { timestamp = support.now })
    support.now = support.now + 1000
    assert.equal(1, store:maintain().flushed)
    assert.equal(2, durable())
  end)
end)

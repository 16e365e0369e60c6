-- compact,delete: what was not updated within retention.ms goes, however few values it had.
local support = require "support"

describe("compact,delete", function()
  after_each(support.cleanup)

  it("lets a key go that was last updated before retention.ms", function()
    local topic, store = support.topic { cleanup_policy = "compact,delete", retention_ms = 10000, segment_ms = 1000, segment_bytes = 400 }
    local begin = support.now
    topic:append("once", "only value")
    topic:append("early", "1")
    topic:append("early", "2")
    topic:append("kept", "1")
    local state = store:table "t"
    for second = 2, 9 do
      support.now = begin + second * 1000
      topic:append("kept", tostring(second))
      store:maintain()
    end
    assert.equal("only value", state:get "once")
    local words = support.words(topic:records())
    assert.matches("once=only value", words)
    assert.matches("early=2", words)
    assert.not_matches("early=1", words)

    support.now = begin + 25000
    topic:append("kept", "last")
    store:maintain()
    assert.equal("kept=last", support.words(topic:records()))
    state:update()
    assert.is_nil(state:get "once")
    assert.is_nil(state:get "early")
    assert.equal("last", state:get "kept")
    assert.equal(1, store:table("t"):count())
  end)

  it("lets the last value of a key go even if it was never compacted", function()
    local topic = support.topic { cleanup_policy = "compact,delete", retention_ms = 1000, min_cleanable_dirty_ratio = 1 }
    topic:append("once", "v")
    topic:roll()
    support.now = support.now + 1001
    topic:append("new", "v")
    assert.equal(0, topic:compact().partitions)
    assert.equal(1, topic:retain().segments)
    assert.equal("new=v", support.words(topic:records()))
  end)
end)

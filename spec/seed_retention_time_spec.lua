-- retention.ms: nothing goes before a check; at the check closed segments go; nothing outlives it by more than segment.ms and a check.
local support = require "support"

local RECORDS, RETENTION = 20000, 20000

describe("retention by time", function()
  after_each(support.cleanup)

  it("takes closed segments at the first check and the active one when all has expired", function()
    local topic = support.topic { retention_ms = RETENTION, segment_bytes = "200KB" }
    local begin, value = support.now, ("v"):rep(100)
    for i = 1, RECORDS do
      support.now = begin + i
      topic:append("k" .. i % 100, value)
    end
    local segments = topic:segments()
    assert(#segments > 8)
    for i = 1, #segments - 1 do assert(segments[i].size <= 200000) end
    local newest_closed = segments[#segments - 1].max_timestamp
    assert.equal(begin + RECORDS, segments[#segments].max_timestamp)

    -- Overdue, and still there: only a check deletes.
    support.now = newest_closed + RETENTION + 1
    assert.equal(0, topic:earliest())
    assert.equal(#segments, #topic:segments())
    assert.equal(0, topic:retain({ now = begin + RETENTION }).segments)

    local bytes = 0
    for i = 1, #segments - 1 do bytes = bytes + segments[i].size end
    assert.same({ segments = #segments - 1, bytes = bytes }, topic:retain())
    assert.equal(segments[#segments].base_offset, topic:earliest())
    assert.equal(1, #topic:segments())
    assert.same({ segments = 0, bytes = 0 }, topic:retain())

    -- Exactly retention.ms old is not too old.
    support.now = begin + RECORDS + RETENTION
    assert.equal(0, topic:retain().segments)
    support.now = support.now + 1
    assert.equal(1, topic:retain().segments)
    assert.equal(RECORDS, topic:earliest())
    assert.equal(RECORDS, topic:latest())
    assert.equal("", support.words(topic:records()))
    assert.equal(RECORDS, (topic:append("k", "v")))
  end)

  it("lets no record outlive it by more than segment.ms and one interval", function()
    local interval, segment_ms = 1000, 5000
    local topic, store = support.topic { retention_ms = RETENTION, segment_ms = segment_ms }
    local begin = support.now
    for tick = 1, 600 do
      support.now = begin + tick * 100
      if tick % 3 == 0 and tick < 400 then topic:append("k", "v") end
      if support.now % interval == 0 then
        store:maintain()
        local _, _, _, oldest = topic:records()()
        assert(not oldest or oldest >= support.now - RETENTION - segment_ms - interval, "tick " .. tick)
      end
    end
    assert.equal(topic:latest(), topic:earliest())
    assert.equal(133, topic:latest())
  end)

  it("is one check of maintain over all topics", function()
    local topic, store = support.topic { retention_ms = 1000 }
    local other = store:topic("other", { retention_ms = 5000 })
    topic:append("k", "v")
    other:append("k", "v")
    support.now = support.now + 1001
    assert.equal(1, store:maintain().segments)
    assert.same({ 1, 0 }, { topic:earliest(), other:earliest() })
  end)
end)

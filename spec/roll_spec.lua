-- When the active segment is closed: by size, by record time, by a full index, by roll(), and by the wall clock in maintain.
local support = require "support"
local disk = require "disk"

describe("rolling", function()
  after_each(support.cleanup)

  local function batch(topic, n, timestamp)                   -- one record of n bytes of value as a batch: 69 + n bytes, from 57 on 70 + n
    return assert(topic:append_batch { { key = "k", value = ("v"):rep(n), timestamp = timestamp } })
  end

  it("by size happens when a batch would not fit, not when it just fits", function()
    local topic = support.topic { segment_bytes = 200 }
    batch(topic, 31)
    batch(topic, 31)
    assert.same({ 200, "0" }, { topic:segments()[1].size, support.bases(topic) })
    batch(topic, 0)
    assert.equal("0 2", support.bases(topic))
    batch(topic, 61)
    assert.equal("0 2", support.bases(topic))
    batch(topic, 0)
    assert.equal("0 2 4", support.bases(topic))
  end)

  it("by size counts the stage", function()
    local topic = support.topic { segment_bytes = 300 }
    for _ = 1, 100 do topic:append("key", "value") end
    for i, s in ipairs(topic:segments()) do assert(s.size <= 300 and (s.size > 250 or s.state == "active"), "segment " .. i) end
    local n = 0
    for offset in topic:records() do
      assert.equal(n, offset)
      n = n + 1
    end
    assert.equal(100, n)
  end)

  it("by time goes by the records, from the first one on", function()
    local topic = support.topic { segment_ms = 1000 }
    batch(topic, 1, support.now)
    batch(topic, 1, support.now + 1000)
    assert.equal("0", support.bases(topic))
    batch(topic, 1, support.now + 1001)
    assert.equal("0 2", support.bases(topic))
    batch(topic, 1, support.now - 100000)                     -- back-fill does not roll
    batch(topic, 1, support.now + 2001)
    assert.equal("0 2", support.bases(topic))
    batch(topic, 1, support.now + 2002)
    assert.equal("0 2 5", support.bases(topic))
  end)

  it("by time goes by the clock when the first record has no time", function()
    local topic = support.topic { segment_ms = 1000 }
    batch(topic, 1, -1)
    support.now = support.now + 1000
    batch(topic, 1, -1)
    assert.equal("0", support.bases(topic))
    support.now = support.now + 1
    batch(topic, 1, -1)
    assert.equal("0 2", support.bases(topic))
  end)

  it("by time is within max.compaction.lag.ms under compact", function()
    local topic = support.topic { segment_ms = 100000, max_compaction_lag_ms = 1000, cleanup_policy = "compact" }
    batch(topic, 1, support.now)
    batch(topic, 1, support.now + 1001)
    assert.equal("0 1", support.bases(topic))
    topic:alter { cleanup_policy = "delete" }
    batch(topic, 1, support.now + 3003)
    assert.equal("0 1", support.bases(topic))
  end)

  it("happens when an index is full", function()
    local topic = support.topic { segment_index_bytes = 40, index_interval_bytes = 0 }
    for i = 0, 9 do batch(topic, 1, support.now + i) end
    -- 40 bytes are 3 time index entries, of which one stays free for the last; a segment's first batch has none.
    assert.equal("0 3 6 9", support.bases(topic))
  end)

  it("by hand answers with the new base", function()
    local topic = support.topic()
    assert.equal(0, topic:roll())
    assert.equal("0", support.bases(topic))
    topic:append("a", "1")
    topic:append("b", "1")
    assert.equal(2, topic:roll())
    assert.equal(2, topic:roll())
    assert.equal("0 2", support.bases(topic))
    assert.equal("dirty active", topic:segments()[1].state .. " " .. topic:segments()[2].state)
  end)

  it("leaves a file that is exactly its batches, and trimmed indexes", function()
    local path = support.path()
    local topic = support.open(path):topic("t", { preallocate = true, segment_bytes = 10000, index_interval_bytes = 0 })
    for _ = 1, 3 do batch(topic, 10) end
    topic:append("a", "1")
    topic:roll()
    local s = topic:segments()[1]
    local bytes = disk.read(s.path)
    assert.equal(s.size, #bytes)
    assert.equal(4, #disk.batches(bytes))
    assert.equal(3 * 8, #disk.read((s.path:gsub("%.log$", ".index"))))
    assert.equal(12, #disk.read((s.path:gsub("%.log$", ".timeindex"))))
  end)

  it("of an idle log is maintain's, segment.ms after its first append", function()
    local topic, store = support.topic { segment_ms = 1000, retention_ms = -1 }
    assert.equal(0, store:maintain({ now = support.now + 100000 }).rolled)      -- an empty one stays
    support.now = support.now + 100000
    topic:append("a", "1", { timestamp = 5 })
    support.now = support.now + 500
    topic:append("b", "1", { timestamp = 5 })
    support.now = support.now + 500
    assert.equal(0, store:maintain().rolled)
    support.now = support.now + 1
    assert.equal(1, store:maintain().rolled)
    assert.equal("0 2", support.bases(topic))
    assert.equal(0, store:maintain().rolled)
  end)

  it("by lowered configs begins with the next append", function()
    local topic = support.topic()
    for _ = 1, 5 do batch(topic, 31) end
    topic:alter { segment_bytes = 200 }
    assert.equal("0", support.bases(topic))
    for _ = 1, 3 do batch(topic, 31) end
    assert.equal("0 5 7", support.bases(topic))
  end)
end)

-- What went wrong with retention, rolling and the log start in stores in the field, told again: docs/field-failures-covered.md.
local support = require "support"
local disk = require "disk"

local DAY = 86400000

describe("retention, where others have failed,", function()
  after_each(support.cleanup)

  -- A batch of exactly `size` bytes.
  local function put(topic, size, timestamp)
    local n = size <= 125 and size - 69 or size - 71
    assert(topic:append_batch { { key = "k", value = ("v"):rep(n), timestamp = timestamp } })
  end

  it("by size is exact (KAFKA-4788, KAFKA-4092)", function()
    local topic = support.topic { retention_ms = -1 }         -- segment.bytes is above retention.bytes: a GiB
    for i = 1, 4 do
      put(topic, i < 4 and 200 or 100)
      if i < 4 then topic:roll() end
    end
    local function retain(limit)
      topic:alter { retention_bytes = limit }
      local r = topic:retain()
      return r.segments, r.bytes
    end
    assert.equal(700, topic:stats().partitions[0].size)
    assert.same({ 0, 0 }, { retain(-1) })
    assert.same({ 0, 0 }, { retain(501) })
    assert.same({ 1, 200 }, { retain(500) })
    assert.same({ 0, 0 }, { retain(500) })
    assert.equal("1 2 3", support.bases(topic))
    assert.same({ 0, 0 }, { retain(301) })
    assert.same({ 1, 200 }, { retain(300) })
    assert.same({ 1, 200 }, { retain(0) })                    -- never the active one; Kafka takes that as well
    assert.same({ 3, 4 }, { topic:earliest(), topic:latest() })
  end)

  it("does all that is due at once (KAFKA-12177)", function()
    local topic = support.topic { retention_ms = 1000 }
    local now = support.now
    for i, t in ipairs { now, now - 5000, now - 5000, now, now } do
      put(topic, 100, t)
      if i < 5 then topic:roll() end
    end
    assert.equal(0, topic:retain().segments)                  -- the first one is young, and holds up the others
    topic:delete_records(1)
    assert.equal(3, topic:retain().segments)
    assert.equal("3 4", support.bases(topic))
    assert.equal(3, topic:earliest())
    for _ = 1, 2 do assert.same({ segments = 0, bytes = 0 }, topic:retain()) end
  end)

  it("unlinks a deleted segment's files, and none of a new one with its name (KAFKA-5752, KAFKA-636)", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact,delete", retention_ms = -1, file_delete_delay_ms = 60000,
                                     index_interval_bytes = 0, min_cleanable_dirty_ratio = 1 })
    local dir = path .. "/t-0/"
    local function live()
      local list = {}
      for _, name in ipairs(disk.list(dir, "0000000000")) do
        if not name:find "deleted" then list[#list + 1] = name end
      end
      return table.concat(list, " ")
    end
    for i = 1, 3 do                                           -- each cleaning puts a new segment 0 in the place of one that waits
      topic:append("k", tostring(i))
      topic:append("own" .. i, "x")
      topic:roll()
      topic:compact { force = true }
      support.now = support.now + 20000
    end
    assert(#disk.list(dir, ".deleted") > 3)
    topic:append("new", "1")
    local before = live()
    assert(store:maintain { now = support.now + 60000 }.files_deleted > 0)
    assert.same({}, disk.list(dir, ".deleted"))
    assert.equal(before, live())
    assert.equal("own1=x own2=x k=3 own3=x new=1", support.words(topic:records()))

    -- A log of which all was deleted goes on at the same base, closed and opened or not.
    topic:alter { retention_ms = 1000 }
    support.now = support.now + 100000
    assert(topic:retain().segments > 0)
    local base = topic:latest()
    for i = 1, 3 do
      assert.equal(base + i - 1, (topic:append("again", tostring(i))))
      topic:roll()
    end
    store:maintain { now = support.now }
    assert(store:maintain { now = support.now + 60000 }.failed == 0)
    store:close()
    assert.equal("", support.words(support.open(path):topic("t"):records { to = base }))
  end)

  it("keeps a log start in the middle of a batch (KAFKA-6975)", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { retention_ms = -1 })
    local batch, words = {}, {}
    for i = 1, 10 do
      batch[i] = { key = "k" .. i - 1, value = "v" }
      if i > 5 then words[#words + 1] = "k" .. i - 1 .. "=v" end
    end
    topic:append_batch(batch)
    topic:roll()
    assert.equal(5, topic:delete_records(5))
    assert.equal(0, topic:retain().segments)
    for _ = 1, 3 do
      local err = support.raised(function() return topic:records { from = 4 } end)
      assert.equal("offset_out_of_range", err.code)
      assert.equal(table.concat(words, " "), support.words(topic:records { from = 5 }))
      assert.equal("k7=v", support.words(topic:records { from = 7, to = 8 }))
      assert.equal(table.concat(words, " "), support.words(topic:records()))
      assert.same({ 5, 10, "0 10" }, { topic:earliest(), topic:latest(), support.bases(topic) })
      store:close()
      store = support.open(path)
      topic = store:topic "t"
    end
  end)

  it("leaves rolling to the records' own time, or to the clock, not to both (timeWaitedForRoll)", function()
    local topic = support.topic { segment_ms = 1000, message_timestamp_before_max_ms = 2 ^ 63, retention_ms = -1 }
    put(topic, 100, 0)
    support.now = support.now + DAY
    put(topic, 100, 10)
    assert.equal("0", support.bases(topic))
    put(topic, 100, 1000)
    assert.equal("0", support.bases(topic))
    put(topic, 100, 1001)
    assert.equal("0 3", support.bases(topic))
    topic:roll()
    put(topic, 100, -1)                                       -- without time: by the clock, since the segment began
    support.now = support.now + 1000
    put(topic, 100, -1)
    assert.equal("0 3 4", support.bases(topic))
    support.now = support.now + 1
    put(topic, 100, 5)
    assert.equal("0 3 4 6", support.bases(topic))
  end)

  it("bears the largest times and limits (KAFKA-985, KAFKA-17415)", function()
    local LARGEST, last = 2 ^ 63, 2 ^ 53                      -- a limit for ever; the last time that a number can tell on both Luas
    local path = support.path()
    local store = support.open(path, { options = { ["linger.ms"] = LARGEST, ["log.retention.check.interval.ms"] = LARGEST } })
    local config = { cleanup_policy = "compact,delete", retention_bytes = LARGEST, min_compaction_lag_ms = 0 }
    for _, name in ipairs { "retention_ms", "segment_ms", "segment_jitter_ms", "delete_retention_ms", "file_delete_delay_ms", "flush_ms",
                            "flush_messages", "max_compaction_lag_ms", "message_timestamp_after_max_ms",
                            "message_timestamp_before_max_ms" } do
      config[name] = LARGEST
    end
    local topic = store:topic("t", config)
    local records = { { "a", 0 }, { "b", last }, { "c", -1 }, { "b", last - 1 } }
    for _, r in ipairs(records) do assert(topic:append_batch { { key = r[1], value = "1", timestamp = r[2] } }) end
    topic:append("d", nil, { timestamp = last })
    assert.equal("0", support.bases(topic))
    topic:roll()
    for _, now in ipairs { 0, support.now, 2 ^ 53 } do
      assert.equal(0, topic:retain({ now = now }).segments)
      local report = store:maintain { now = now }
      assert.same({ 0, 0, 0 }, { report.failed, report.segments, report.files_deleted })
      assert.equal(0, topic:compact({ force = true, now = now }).tombstones_removed)
    end
    assert.equal("a=1 c=1 b=1 d-", support.words(topic:records()))
    assert.equal(1, #disk.list(path .. "/t-0", ".log.deleted"))
    assert.equal(4, (topic:offset_for_time(last)))
    topic:append_batch { { key = "e", value = "1", timestamp = last } }
    topic:alter { min_compaction_lag_ms = LARGEST }
    topic:roll()
    assert.equal(0, topic:compact({ force = true, now = 2 ^ 53 }).partitions)
    assert.equal(topic:latest(), topic:delete_records(topic:latest()))
    store:close()
    assert.equal("", support.words(support.open(path):topic("t"):records()))
  end)
end)

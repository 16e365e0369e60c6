-- Compaction: of each key the last value stays, offsets never change, bytes are rebuilt only where something left.
local support = require "support"
local disk = require "disk"

describe("compaction", function()
  after_each(support.cleanup)

  local function compacted(config)
    config = config or {}
    config.cleanup_policy = config.cleanup_policy or "compact"
    return support.topic(config)
  end

  local function put(topic, words)
    local batch = {}
    for key, value in words:gmatch "(%w+)=(%w*)" do batch[#batch + 1] = { key = key, value = value ~= "" and value or nil } end
    assert(topic:append_batch(batch))
  end

  it("is refused where the policy lacks it", function()
    local topic = support.topic()
    local result, message, code = topic:compact { force = true }
    assert.is_nil(result)
    assert.equal("policy", code)
    assert.matches("compact", message)
  end)

  it("reports what it did", function()
    local topic = compacted()
    assert.equal(0, topic:compact({ force = true }).partitions)
    put(topic, "a=1 b=1 a=2 c=1")
    topic:roll()
    local before = topic:segments()[1].size
    local r = topic:compact { force = true }
    assert.same({ 1, 4, 3, 0 }, { r.partitions, r.records_read, r.records_written, r.tombstones_removed })
    assert.same({ 0, 0 }, { r.corrupt, r.keyless_dropped })
    assert.equal(topic:segments()[1].size, r.bytes_written)
    assert(r.bytes_read >= before)
    assert(r.seconds >= 0)
  end)

  it("counts every partition", function()
    local topic = compacted { partitions = 3 }
    for p = 0, 2 do
      topic:append("a", "1", { partition = p })
      topic:append("a", "2", { partition = p })
      if p < 2 then topic:roll(p) end
    end
    local r = topic:compact { force = true }
    assert.same({ 2, 4, 2 }, { r.partitions, r.records_read, r.records_written })
    assert.equal("a=1 a=2", support.words(topic:records { partition = 2 }))
  end)

  it("copies a batch of which all stays byte for byte", function()
    local topic = compacted()
    put(topic, "a=1 b=1")
    put(topic, "c=1 a=2")
    put(topic, "d=1")
    topic:roll()
    local before = disk.read(topic:segments()[1].path)
    topic:compact { force = true }
    local after = disk.read(topic:segments()[1].path)
    local old, new = disk.batches(before), disk.batches(after)
    assert.equal(3, #new)
    assert.equal(before:sub(old[2].position + 1), after:sub(new[2].position + 1))
    assert.same({ 0, 1, 1 }, { new[1].base_offset, new[1].last_offset, new[1].count })
    assert.same({ 1, "b" }, { new[1].records[1].offset, new[1].records[1].key })
  end)

  it("keeps a rebuilt batch's range of offsets, and its remaining times", function()
    local topic, t = compacted(), support.now
    topic:append_batch { { key = "x", value = "1", timestamp = t + 9 }, { key = "a", value = "1", timestamp = t + 3 },
                         { key = "b", value = "1", timestamp = t + 5 }, { key = "y", value = "1", timestamp = t + 50 } }
    put(topic, "x=2 y=2")
    topic:roll()
    topic:compact { force = true }
    local b = disk.batches(disk.read(topic:segments()[1].path))[1]
    assert.same({ 0, 3, 2, t + 3, t + 5 }, { b.base_offset, b.last_offset, b.count, b.base_timestamp, b.max_timestamp })
    assert.same({ 1, 2 }, { b.records[1].offset, b.records[2].offset })
    assert.same({ t + 3, t + 5 }, { b.records[1].timestamp, b.records[2].timestamp })
    assert.equal(t + 5, support.collect(topic:records { from = 2 })[1].timestamp)
  end)

  it("keeps the last batch of the round, empty, for its offset", function()
    local topic = compacted()
    put(topic, "a=1")
    topic:roll()
    topic:compact { force = true }
    put(topic, "b=1")
    put(topic, "a=")
    topic:roll()
    topic:compact { force = true }
    topic:append("c", "1")
    topic:roll()
    support.now = support.now + 86400000
    topic:compact { force = true }                            -- the tombstone's batch is not the last one now: it goes
    local shape = {}
    for _, b in ipairs(disk.batches(disk.read(topic:segments()[1].path))) do shape[#shape + 1] = b.base_offset .. ":" .. b.count end
    assert.equal("1:1 3:1", table.concat(shape, " "))

    topic:append("c", nil)
    topic:roll()
    topic:compact { force = true }
    support.now = support.now + 86400000
    topic:compact { force = true }
    local batches = disk.batches(disk.read(topic:segments()[1].path))
    local last = batches[#batches]
    assert.same({ 4, 4, 0, 61, -1, 0 }, { last.base_offset, last.last_offset, last.count, last.size, last.base_timestamp, last.attributes })
    assert.equal(5, topic:latest())
    assert.equal("b=1", support.words(topic:records()))
  end)

  it("merges segments up to segment.bytes", function()
    local topic = compacted { segment_bytes = 1000 }
    for i = 1, 40 do
      put(topic, "k" .. i .. "=v dup=" .. i)
      topic:roll()
    end
    assert.equal(41, #topic:segments())
    topic:compact { force = true }
    topic:roll()
    local segments = topic:segments()
    assert(#segments < 12)
    for i = 1, #segments do assert(segments[i].size <= 1000) end
    assert.equal(0, segments[1].base_offset)
    assert.equal(41, #support.collect(topic:records()))
  end)

  it("leaves a closed segment of which nothing is left, until it can be merged", function()
    local topic = compacted { cleanup_policy = "compact", segment_bytes = 100 }
    put(topic, "a=1")
    topic:roll()
    put(topic, "a=2")
    topic:roll()
    topic:compact { force = true }
    assert.equal("a=2", support.words(topic:records()))
    local records = {}
    for i, s in ipairs(topic:segments()) do records[i] = s.records end
    assert.equal("0 1 0", table.concat(records, " "))
  end)

  it("obeys min.compaction.lag.ms, also when forced", function()
    local topic = compacted { min_compaction_lag_ms = 1000 }
    put(topic, "a=1 a=2")
    topic:roll()
    support.now = support.now + 500
    put(topic, "a=3 a=4")
    topic:roll()
    assert.equal(0, topic:compact({ force = true, now = support.now + 499 }).partitions)
    assert.equal(1, topic:compact({ force = true, now = support.now + 500 }).partitions)
    assert.equal("a=2 a=3 a=4", support.words(topic:records()))
    assert.equal(1, topic:compact({ force = true, now = support.now + 1000 }).partitions)
    assert.equal("a=4", support.words(topic:records()))
  end)

  it("is due whatever the ratio after max.compaction.lag.ms", function()
    local topic, store = compacted { max_compaction_lag_ms = 1000, min_cleanable_dirty_ratio = 1 }
    put(topic, "a=1 a=2")
    topic:roll()
    assert.equal(0, topic:compact({ now = support.now + 1000 }).partitions)
    assert.equal(1, topic:compact({ now = support.now + 1001 }).partitions)
    put(topic, "b=1 b=2")
    assert.equal(1, store:maintain({ now = support.now + 1001 }).cleaned)      -- rolls it as well
    assert.equal("a=2 b=2", support.words(topic:records()))
  end)

  it("ends a pass at the next record once the map is full, a key that is in it or not", function()
    local store = support.open(nil, { options = { ["log.cleaner.dedupe.buffer.size"] = 64 } })           -- room for one key
    local topic = store:topic("t", { cleanup_policy = "compact", delete_retention_ms = 0 })
    topic:append_batch { { key = "a" }, { key = "a" } }
    topic:roll()
    -- The first pass gives the batch its horizon, the second takes the tombstone whose horizon has come.
    assert.equal(1, topic:compact({ force = true }).tombstones_removed)
    assert.equal("", support.words(topic:records()))
  end)

  it("copes with a dedupe buffer of any size", function()
    for _, bytes in ipairs { 48, 100, 240, 1000, 134217728 } do
      local store = support.open(nil, { options = { ["log.cleaner.dedupe.buffer.size"] = bytes } })
      local topic, last, order = store:topic("t", { cleanup_policy = "compact" }), {}, 0
      for i = 1, 300 do
        local key = "k" .. i % 37
        topic:append(key, tostring(i))
        last[key] = tostring(i)
        if i % 50 == 0 then topic:roll() end
      end
      topic:compact { force = true }
      topic:compact { force = true }
      assert.equal(300, topic:stats().partitions[0].clean_offset)
      for offset, key, value in topic:records() do
        assert(offset >= order)
        order = offset
        assert(last[key] == value, bytes .. " bytes: " .. key .. " is " .. value)
        last[key] = nil
      end
      assert.is_nil(next(last))
      store:close()
    end
  end)

  it("drops records without a key and counts them", function()
    local topic = support.topic()
    topic:append(nil, "1")
    topic:append("a", "1")
    topic:append(nil, "2")
    topic:roll()
    topic:alter { cleanup_policy = "compact" }
    assert.equal(2, topic:compact({ force = true }).keyless_dropped)
    assert.equal("a=1", support.words(topic:records()))
    assert.equal(2, topic:stats().partitions[0].keyless_dropped)
  end)

  it("keeps LogAppendTime", function()
    local topic = compacted { message_timestamp_type = "LogAppendTime" }
    topic:append_batch { { key = "a", value = "1", timestamp = 5 }, { key = "b", value = "1", timestamp = 6 } }
    put(topic, "b=2")
    topic:roll()
    local when = support.now
    support.now = support.now + 1000
    topic:compact { force = true }
    for _, r in ipairs(support.collect(topic:records())) do assert.equal(when, r.timestamp) end
    local b = disk.batches(disk.read(topic:segments()[1].path))[1]
    assert.same({ 8, when }, { b.attributes, b.max_timestamp })
  end)

  it("keeps headers, empty values and empty keys", function()
    local topic = compacted()
    topic:append("", "", { headers = { { "h", "1" }, { "h" } } })
    topic:append("x", "1")
    topic:append("x", "2")
    topic:roll()
    topic:compact { force = true }
    local list = support.collect(topic:records())
    assert.same({ offset = 0, key = "", value = "", timestamp = support.now, headers = { { "h", "1" }, { "h" } } }, list[1])
    assert.equal("2", list[2].value)
  end)

  it("leaves a corrupt batch, tells, and goes on elsewhere", function()
    support.damaged()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact", partitions = 2 })
    for p = 0, 1 do
      for i = 1, 3 do topic:append("a", "value " .. i, { partition = p }) end
      topic:roll(p)
    end
    local file = topic:segments(0)[1].path
    local bytes = disk.read(file)
    disk.write(file, (bytes:gsub("value 2", "valve 2")))
    local r = assert(topic:compact { force = true })
    assert.same({ 1, 1 }, { r.partitions, r.corrupt })
    assert.equal("a=value 3", support.words(topic:records { partition = 1 }))
    assert.equal("valve 2", disk.read(file):match "val[vu]e 2")
    assert.equal("corrupt", support.raised(function() support.words(topic:records()) end).code)
    assert.equal(1, topic:stats().partitions[0].corrupt_batches)
    assert.equal(0, topic:stats().partitions[1].corrupt_batches)
  end)

  it("postpones retention by nothing but what is left", function()
    local topic = compacted { cleanup_policy = "compact,delete", retention_ms = 1000 }
    local t = support.now
    topic:append_batch { { key = "a", value = "1", timestamp = t } }
    topic:append_batch { { key = "b", value = "1", timestamp = t + 800 } }
    topic:roll()
    topic:append_batch { { key = "b", value = "2", timestamp = t + 900 } }
    topic:roll()
    topic:compact { force = true }
    assert.equal(t + 900, topic:segments()[1].max_timestamp)
    assert.equal(0, topic:retain({ now = t + 1900 }).segments)
    assert.equal(1, topic:retain({ now = t + 1901 }).segments)
  end)
end)

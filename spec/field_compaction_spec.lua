-- What went wrong with compaction in stores in the field, told again: docs/field-failures-covered.md.
local support = require "support"
local disk = require "disk"
local craft = require "craft"

local DAY = 86400000

describe("compaction, where others have failed,", function()
  after_each(support.cleanup)

  local function compacted(config, options)
    config = config or {}
    config.cleanup_policy = config.cleanup_policy or "compact"
    return support.topic(config, options)
  end

  local function clean(topic, now) return assert(topic:compact { force = true, now = now }) end

  local function batches(topic, i) return disk.batches(disk.read(topic:segments()[i or 1].path)) end

  -- Names, sizes, inodes and times of a partition's segments, to see that nothing was touched.
  local function files(topic)
    local folder = topic:segments()[1].path:gsub("/[^/]*$", "")
    local pipe = assert(io.popen("cd '" .. folder .. "' && stat -c '%n %s %i %Y' *.log *index *.digest"))
    local text = pipe:read "*a"
    pipe:close()
    return text
  end

  it("keeps an empty value, which is no tombstone, and takes a missing one for one (Pulsar 1525, 25817)", function()
    local topic = compacted { delete_retention_ms = 0 }
    topic:append_batch { { key = "k1", value = "v" }, { key = "k1", value = "" }, { key = "k2", value = "v" }, { key = "k2" },
                         { key = "k3", value = "v" }, { key = "k3", headers = { { "h", ("x"):rep(100) } } } }
    topic:append("k4", "v")
    topic:append("k4", "")
    topic:append("k5", "v")
    topic:append("k5", nil)
    topic:append("tail", "1")
    topic:roll()
    clean(topic)
    assert.equal("k1= k2- k3- k4= k5- tail=1", support.words(topic:records()))
    assert.equal(3, clean(topic).tombstones_removed)
    assert.equal("k1= k4= tail=1", support.words(topic:records()))
    assert.equal(0, clean(topic).partitions)
  end)

  it("does not clean again for a gap before the next segment (KAFKA-8764)", function()
    local dir = craft.directory {
      [0] = craft.record(0, "a", "1") .. craft.record(1, "a", "2") .. craft.record(4, "b", "1"),
      [10] = craft.record(10, "a", "3"),
    }
    local topic = craft.import(dir, { cleanup_policy = "compact" })
    assert.equal(1, clean(topic).partitions)
    assert.equal("a=2 b=1 a=3", support.words(topic:records()))
    assert.equal(10, topic:stats().partitions[0].clean_offset)
    local before = files(topic)
    assert.equal(0, clean(topic).partitions)
    assert.equal(0, topic:stats().partitions[0].dirty_ratio)
    assert.equal(before, files(topic))
  end)

  -- A store whose cleaner is to begin within the active segment.
  local function started_in_active(offset)
    local topic = compacted { cleanup_policy = "compact,delete", retention_ms = -1 }
    for i = 1, 9 do
      topic:append("k", tostring(i))
      if i % 3 == 0 and i < 9 then topic:roll() end
    end
    assert.equal(offset, topic:delete_records(offset))
    return topic
  end

  it("leaves a log alone whose first dirty offset is in the active segment (KAFKA-9826)", function()
    local topic = started_in_active(7)
    topic:flush()
    local before = files(topic)
    for _ = 1, 3 do assert.equal(0, clean(topic).partitions) end
    assert.equal(0, topic:stats().partitions[0].dirty_ratio)
    assert.equal(before, files(topic))
    assert.equal("k=8 k=9", support.words(topic:records()))
  end)

  it("goes on when the log start has passed the active segment's base (KAFKA-9133)", function()
    local topic = started_in_active(8)
    assert.same({ 0, 0 }, { clean(topic).partitions, clean(topic).corrupt })
    assert.equal("k=9", support.words(topic:records()))
    assert.equal(2, topic:retain().segments)
    topic:roll()
    topic:append("k", "10")
    topic:roll()
    assert.equal(1, clean(topic).partitions)
    assert.equal("k=10", support.words(topic:records()))
  end)

  it("puts a checkpoint right that is beyond the log or below its start (KAFKA-1641, KAFKA-3330)", function()
    for _, checkpoint in ipairs { 1000000000, 101, 2 } do
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", { cleanup_policy = "compact,delete", retention_ms = -1 })
      for i = 1, 100 do topic:append("k" .. i % 5, tostring(i)) end
      topic:roll()
      topic:delete_records(50)
      store:close()
      disk.write(path .. "/cleaner-offset-checkpoint", ("0\n1\nt 0 %d\n"):format(checkpoint))
      topic = support.open(path):topic "t"
      assert.equal(50, topic:stats().partitions[0].clean_offset)
      assert.equal(1, clean(topic).partitions)
      assert.equal("k1=96 k2=97 k3=98 k4=99 k0=100", support.words(topic:records()))
      assert.equal(100, topic:stats().partitions[0].clean_offset)
      topic:append("k1", "101")
      topic:append("k1", "102")
      topic:roll()
      clean(topic)
      assert.equal("k2=97 k3=98 k4=99 k0=100 k1=102", support.words(topic:records()))
    end
  end)

  it("counts sizes beyond 2 GiB, as retention does (KAFKA-6030, KAFKA-5584)", function()
    local GIB, dir, folder = 2 ^ 30, craft.directory {}
    local second = craft.sparse(dir .. "/" .. disk.log(0), 0, 1.2 * GIB - 1.2 * GIB % 1, "a")
    local third = craft.sparse(dir .. "/" .. disk.log(second), second, 1.2 * GIB - 1.2 * GIB % 1, "b")
    disk.write(dir .. "/" .. disk.log(third), craft.record(third, "c", "1"))
    disk.write(folder .. "cleaner-offset-checkpoint", ("0\n1\nt 0 %d\n"):format(second))
    local topic = craft.import(dir, { cleanup_policy = "compact,delete", retention_ms = -1 })
    local active = topic:segments()[3].size
    local closed = topic:segments()[1].size + topic:segments()[2].size
    assert(closed > 2 ^ 31)
    assert.equal(closed + active, topic:stats().partitions[0].size)
    assert.equal(0.5, topic:stats().partitions[0].dirty_ratio)
    local function retain(limit)
      topic:alter { retention_bytes = limit }
      return topic:retain()
    end
    assert.equal(0, retain(2 ^ 40).segments)
    assert.equal(0, retain(closed / 2 + active + 1).segments)
    assert.same({ segments = 1, bytes = closed / 2 }, retain(closed / 2 + active))
    assert.same({ segments = 1, bytes = closed / 2 }, retain(1))
    assert.equal("c=1", support.words(topic:records()))
  end)

  it("merges emptied segments more than 2^31 offsets apart, once (KAFKA-12889)", function()
    local far = 2 ^ 31 + 10
    local dir = craft.directory {
      [0] = craft.record(0, "a", "1"), [far] = craft.record(far, "a", "2"), [2 * far] = craft.record(2 * far, "a", "3"),
      [3 * far] = craft.record(3 * far, "a", "4"), [4 * far] = craft.record(4 * far, "b", "1"),
    }
    local topic = craft.import(dir, { cleanup_policy = "compact" })
    assert.equal(5, #topic:segments())
    local first = {}
    for i = 1, 3 do                                           -- empties them, makes one of the three, leaves that alone
      clean(topic)
      assert.equal("a=4 b=" .. i, support.words(topic:records()))
      first[i] = files(topic):match "[^\n]+"
      topic:append("b", tostring(i + 1))
      topic:roll()
    end
    assert.equal(first[2], first[3])
    clean(topic)
    assert.equal("a=4 b=4", support.words(topic:records()))
    local records = {}
    for i, s in ipairs(topic:segments()) do records[i] = s.records end
    assert.equal("0 1 1 0", table.concat(records, " "))       -- the empty one cannot reach the next; the last is active
    assert.equal(0, clean(topic).partitions)
  end)

  it("takes batches over max.message.bytes, and ones that a horizon makes larger (KAFKA-5316, KAFKA-6834, KAFKA-4019)", function()
    local topic = compacted { max_message_bytes = 20000, segment_bytes = 20000, delete_retention_ms = DAY }
    local records, n = {}, 0
    repeat
      n = n + 1
      records[n] = { key = "key" .. n, value = "v" }
    until n == 1200
    records[n + 1] = { key = "gone" }
    topic:append_batch(records)
    topic:roll()
    local before = topic:segments()[1].size
    assert(before > 17000 and before < 20000)
    topic:alter { max_message_bytes = 100, segment_bytes = before }
    assert.equal("too_large", select(3, topic:append_batch(records)))
    assert.same({ 1, 1201, 1201 }, { clean(topic).partitions, n + 1, #support.collect(topic:records()) })
    local b = batches(topic)[1]
    assert.equal(support.now + DAY, b.horizon)
    assert(b.size > before, "the deltas count from the horizon now")
    for i, r in ipairs(support.collect(topic:records())) do
      assert.same({ i - 1, records[i].key, records[i].value, support.now }, { r.offset, r.key, r.value, r.timestamp })
    end
    assert.equal(1, clean(topic, support.now + DAY).tombstones_removed)
    assert.equal(n, #support.collect(topic:records()))
  end)

  -- Without one record, and in the codec's default level, the batches take more room than before in its best.
  for codec, config in pairs { gzip = { compression_gzip_level = 9 }, zstd = { compression_zstd_level = 22 } } do
    it("takes batches that recompression makes larger than their segment (KAFKA-20036): " .. codec, function()
      local topic = compacted(config)
      if select(3, topic:append_batch({ { key = "a" } }, { compression = codec })) then return pending(codec .. " is not built in") end
      topic:roll()
      local kept = { twice = "6" }
      math.randomseed(20036)
      for b = 1, 6 do
        local records = { { key = "twice", value = tostring(b) } }
        for i = 2, 60 do
          local words = {}
          for w = 1, 60 do words[w] = ({ "alpha", "beta", "gamma", "delta" })[math.random(4)] .. math.random(30) end
          records[i] = { key = b .. "." .. i, value = table.concat(words, " ") }
          kept[records[i].key] = records[i].value
        end
        assert(topic:append_batch(records, { compression = codec }))
      end
      topic:roll()
      local before, after, last = topic:segments()[2].size, 0, {}
      topic:alter { segment_bytes = before, max_message_bytes = 100 }
      assert.same({ 1, 0 }, { clean(topic).partitions, clean(topic).corrupt })
      for _, s in ipairs(topic:segments()) do after = after + s.size end
      assert(after > before, "the case is not met")
      for _, key, value in topic:records() do last[key] = value end
      last.a = nil
      assert.same(kept, last)
    end)
  end

  it("refuses a whole batch for one record without a key (KAFKA-1755)", function()
    local topic = compacted()
    assert.equal("invalid_record", select(3, topic:append_batch { { value = "x" }, { key = "a", value = "y" } }))
    assert.equal("invalid_record", select(3, topic:append_batch { { key = "a", value = "y" }, { value = "x" } }))
    assert.same({ 0, "" }, { topic:latest(), support.words(topic:records()) })
  end)

  it("drops records without a key, and no others of their batch (Pulsar 20980)", function()
    local topic = support.topic()
    topic:append_batch { { value = "x" }, { key = "a", value = "y" }, {}, { key = "b", value = "z" }, { key = "c" } }
    topic:append("tail", "1")
    topic:roll()
    topic:alter { cleanup_policy = "compact" }
    assert.equal(2, clean(topic).keyless_dropped)
    assert.equal("a=y b=z c- tail=1", support.words(topic:records()))
  end)

  it("of nothing, and down to nothing, ends, and so do readers (Pulsar 6237, 6795, 21917)", function()
    local topic, store = compacted { delete_retention_ms = 0 }
    assert.equal(0, clean(topic).partitions)
    topic:roll()
    assert.equal(0, clean(topic).partitions)
    for _, key in ipairs { "a", "b", "c" } do topic:append(key, nil) end
    topic:roll()
    clean(topic)
    assert.equal(3, clean(topic).tombstones_removed)          -- all of it
    assert.same({ 0, "" }, { clean(topic).partitions, support.words(topic:records()) })
    assert.equal(3, topic:latest())
    local reader, count = topic:records { from = 1, to = 3 }, 0
    while reader() do count = count + 1 end
    assert.equal(0, count)
    assert.equal(0, store:table("t"):count())
    topic:append_batch { { key = "a", value = "1" }, { key = "a", value = "2" } }
    topic:roll()
    topic:append_batch { { key = "a", value = "3" } }
    topic:roll()
    clean(topic)
    assert.equal("a=3", support.words(topic:records { from = 0 }))
    assert.equal(5, (topic:records { from = 4 }()))
    assert.equal(6, topic:latest())
  end)

  -- One idempotent batch of Kafka's, of producer 9 with the key d, whose sequence is used again and again.
  it("keeps one emptied batch of a producer, its last (KAFKA-8335, KAFKA-5490)", function()
    local kafka = disk.read(support.kafka_directory "spanning" .. "/" .. disk.log(3))
    local b = disk.batches(kafka)[6]
    local batch = kafka:sub(b.position + 1, b.position + b.size)
    local segments = {}
    for i = 0, 8, 3 do segments[i] = craft.at(i, batch) .. craft.at(i + 1, batch) .. craft.at(i + 2, batch) end
    segments[9] = craft.record(9, "tail", "1")
    local topic = craft.import(craft.directory(segments), { cleanup_policy = "compact" })
    assert.equal(10, #support.collect(topic:records()))
    local function shape()
      local list = {}
      for _, s in ipairs(topic:segments()) do
        for _, x in ipairs(s.state ~= "active" and disk.batches(disk.read(s.path)) or {}) do
          list[#list + 1] = x.base_offset .. ":" .. x.count
        end
      end
      return table.concat(list, " ")
    end
    clean(topic)
    assert.equal("8:1", shape())
    topic:append("d", "newer")
    topic:roll()
    clean(topic)
    assert.equal("8:0 9:1 10:1", shape())                     -- of the producer its last batch alone, empty
    topic:append("d", "newest")
    topic:roll()
    clean(topic)
    assert.equal("8:0 9:1 11:1", shape())
    topic:append("d", "last")
    topic:roll()
    clean(topic, support.now + 100 * DAY)
    assert.equal("9:1 12:1", shape())
  end)

  it("leaves a damaged log as it is, and cleans the others (KAFKA-7215, KAFKA-8725)", function()
    support.damaged()
    local store = support.open()
    local A, B = store:topic("a", { cleanup_policy = "compact" }), store:topic("b", { cleanup_policy = "compact" })
    for i = 1, 6 do
      for _, topic in ipairs { A, B } do
        topic:append_batch { { key = "k", value = "value " .. i }, { key = "own" .. i, value = "x" } }
        if i % 2 == 0 then topic:roll() end
      end
    end
    local path = A:segments()[2].path
    local before = disk.read(path)
    disk.write(path, (before:gsub("value 3", "valve 3")))
    local kept = files(A)
    for _ = 1, 2 do
      local report = store:maintain()
      assert.same({ 0, 1 }, { report.failed, report.corrupt })
    end
    assert.equal(kept, files(A))
    assert.equal((before:gsub("value 3", "valve 3")), disk.read(path))
    assert(A:stats().partitions[0].corrupt_batches > 0)
    assert.equal("own1=x own2=x own3=x own4=x own5=x k=value 6 own6=x", support.words(B:records()))
  end)

  it("takes tombstones in old clean segments when new ones come all the time (Redpanda 24323, 23380, 24500)", function()
    local topic = compacted { delete_retention_ms = 1000, segment_bytes = 200, min_cleanable_dirty_ratio = 0 }
    for i = 1, 6 do
      topic:append("old" .. i, ("x"):rep(50))
      topic:append("gone" .. i, nil)
      topic:roll()
    end
    clean(topic)
    clean(topic)
    assert(#topic:segments() > 3)
    support.now = support.now + 1000
    topic:append("new", "1")
    topic:roll()
    assert.equal(6, topic:compact().tombstones_removed)       -- without force: the new one makes it due
    assert.is_nil(support.words(topic:records()):find "gone")
    assert.equal(7, #support.collect(topic:records()))
  end)
end)

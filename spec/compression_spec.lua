-- Compression: which codec a batch gets, how large it may be, and that compressed batches are read, cleaned and recovered like others.
local support = require "support"
local disk = require "disk"

local CODECS = { none = 0, gzip = 1, snappy = 2, lz4 = 3, zstd = 4 }
local DAY = 86400000

local function built_in()
  local topic, list = support.topic(), {}
  for _, codec in ipairs { "gzip", "snappy", "lz4", "zstd" } do
    local first, message, code = topic:append_batch({ { key = "k" } }, { compression = codec })
    if first then list[#list + 1] = codec
    else
      assert(code == "unsupported" and message:find(codec, 1, true) and message:find("%-dev"))
      assert(select(3, support.topic { compression_type = codec }:append("k", "v")) == "unsupported")
    end
  end
  support.cleanup()
  return list
end

local codecs = built_in()

describe("compression", function()
  after_each(support.cleanup)

  local function batches(topic, i) return disk.batches(disk.read(topic:segments()[i or 1].path)) end
  local function used(topic)
    topic:flush()
    local list = {}
    for i, b in ipairs(batches(topic)) do list[i] = b.codec end
    return list
  end

  local function many(n, value)
    local records = {}
    for i = 1, n do records[i] = { key = "key" .. i, value = value or ("value "):rep(10) .. i } end
    return records
  end

  for _, codec in ipairs(codecs) do
    it("is what append_batch asks for: " .. codec, function()
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", {})
      local records = { { key = "a", value = ("x"):rep(500), timestamp = 5, headers = { { "h", "v" }, { "h" } } }, { key = "b" },
                        { value = "", timestamp = -1 } }
      for i = 4, 200 do records[i] = { key = "k" .. i, value = ("y"):rep(200), timestamp = support.now + i } end
      assert.same({ 0, 199 }, { topic:append_batch(records, { compression = codec }) })
      topic:append("after", "1")
      assert.same({ CODECS[codec], 0 }, used(topic))
      assert(topic:segments()[1].size < 10000)
      local function check(t)
        local list = support.collect(t:records())
        assert.equal(201, #list)
        assert.same({ offset = 0, key = "a", value = ("x"):rep(500), timestamp = 5, headers = { { "h", "v" }, { "h" } } }, list[1])
        assert.same({ offset = 1, key = "b", timestamp = support.now }, list[2])
        assert.same({ offset = 2, value = "", timestamp = -1 }, list[3])
        for i = 4, 200 do assert.same({ offset = i - 1, key = "k" .. i, value = ("y"):rep(200), timestamp = support.now + i }, list[i]) end
        assert.equal("k8", select(2, t:records { from = 7 }()))
        assert.equal("k50", select(2, t:records { from = { time = support.now + 50 } }()))
      end
      check(topic)
      store:close()
      check(support.open(path):topic "t")
    end)

    it("is what compression.type says: " .. codec, function()
      local topic = support.topic { compression_type = codec }
      topic:append_batch(many(20))
      topic:append_batch(many(20), { compression = codecs[#codecs] })
      topic:append_batch(many(20), { compression = "none" })
      for i = 1, 20 do topic:append("key" .. i, ("value "):rep(10)) end            -- together in the stage
      assert.equal(CODECS[codec], used(topic)[4])
      topic:append("k", "")                                                        -- would get larger
      local n = CODECS[codec]
      assert.same({ n, n, n, n, 0 }, used(topic))
      assert.equal(81, #support.collect(topic:records()))
      topic:alter { compression_type = "uncompressed" }
      topic:append_batch(many(20), { compression = codec })
      topic:alter { compression_type = "producer" }
      topic:append_batch(many(20))
      topic:append("k", "1")
      assert.same({ n, n, n, n, 0, 0, 0, 0 }, used(topic))
      assert.equal(122, #support.collect(topic:records()))
    end)

    it("counts in compressed bytes: " .. codec, function()
      local topic = support.topic { max_message_bytes = 2000, segment_bytes = 3000 }
      local records = many(100)
      assert.equal("too_large", select(3, topic:append_batch(records)))
      assert.equal(0, topic:latest())
      assert.same({ 0, 99 }, { topic:append_batch(records, { compression = codec }) })
      local size = topic:segments()[1].size
      assert(size < 2000)
      topic:alter { max_message_bytes = size }
      assert.same({ 100, 199 }, { topic:append_batch(records, { compression = codec }) })
      topic:alter { max_message_bytes = size - 1 }
      assert.equal("too_large", select(3, topic:append_batch(records, { compression = codec })))
      topic:alter { max_message_bytes = 2000, segment_bytes = size }
      assert.same({ 200, 299 }, { topic:append_batch(records, { compression = codec }) })
      topic:alter { segment_bytes = size - 1 }
      assert.equal("too_large", select(3, topic:append_batch(records, { compression = codec })))
    end)

    it("survives compaction, which removes tombstones in their time: " .. codec, function()
      local topic = support.topic { cleanup_policy = "compact" }
      local o = { compression = codec }
      topic:append_batch({ { key = "a", value = "1" }, { key = "b", value = "1" }, { key = "c", value = "1" } }, o)
      topic:append_batch({ { key = "b" }, { key = "c", value = "2" } }, o)
      topic:append_batch({ { key = "d", value = "1" } }, o)
      topic:roll()
      local report = topic:compact { force = true }
      assert.same({ 6, 4, 0 }, { report.records_read, report.records_written, report.corrupt })
      assert.equal("a=1 b- c=2 d=1", support.words(topic:records()))
      local n, all = CODECS[codec], batches(topic)
      assert.same({ n, n + 64, n }, { all[1].attributes, all[2].attributes, all[3].attributes })
      assert.equal(support.now + DAY, all[2].horizon)
      for i, r in ipairs(support.collect(topic:records())) do
        assert.same({ ({ 0, 3, 4, 5 })[i], support.now }, { r.offset, r.timestamp })
      end
      support.now = support.now + DAY - 1
      assert.equal(0, topic:compact { force = true }.tombstones_removed)
      support.now = support.now + 1
      assert.equal(1, topic:compact { force = true }.tombstones_removed)
      assert.equal("a=1 c=2 d=1", support.words(topic:records()))
      assert.equal(3, topic:stats().partitions[0].purge_floor)
      all = batches(topic)
      assert.same({ n, n + 64, n }, { all[1].attributes, all[2].attributes, all[3].attributes })
    end)

    it("hides no tombstone from the purge floor, reopened or not: " .. codec, function()
      for _, reopened in ipairs { false, true } do
        local path = support.path()
        local store = support.open(path)
        local topic = store:topic("t", { cleanup_policy = "compact,delete", retention_ms = 1000 })
        topic:append_batch({ { key = "a", value = "1" }, { key = "b" }, { key = "c", value = "1" } }, { compression = codec })
        topic:roll()
        topic:append("d", "1")
        if reopened then
          store:close()
          for _, name in ipairs(disk.list(path .. "/t-0", "index")) do os.remove(path .. "/t-0/" .. name) end
          topic = support.open(path):topic "t"
        end
        assert.equal(2, topic:retain { now = support.now + 2000 }.segments)
        assert.equal(1, topic:stats().partitions[0].purge_floor)
      end
    end)

    it("is in state tables and in recovered logs: " .. codec, function()
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", { cleanup_policy = "compact" })
      topic:append_batch(many(50), { compression = codec })
      topic:append_batch({ { key = "key7" }, { key = "key8", value = "new" } }, { compression = codec })
      disk.copy(path, path .. "-crashed")
      os.remove(path .. "-crashed/.kafka_cleanshutdown")
      for _, name in ipairs(disk.list(path .. "-crashed/t-0", "index")) do os.remove(path .. "-crashed/t-0/" .. name) end
      for _, from in ipairs { path, path .. "-crashed" } do
        local state = (from == path and store or support.open(from)):table "t"
        assert.equal(49, state:count())
        assert.is_nil(state:get "key7")
        assert.equal("new", state:get "key8")
        assert.equal(("value "):rep(10) .. "50", state:get "key50")
      end
    end)
  end

  it("has levels", function()
    local random, words = 1, {}
    for i = 1, 3000 do
      random = random * 16807 % 2147483647
      words[i] = ({ "alpha ", "beta ", "gamma ", "delta " })[random % 4 + 1]
    end
    local records = { { key = "k", value = table.concat(words), timestamp = 1 } }
    local function size(codec, config)
      local topic = support.topic(config)
      topic:append_batch(records, { compression = codec })
      return topic:segments()[1].size
    end
    for _, codec in ipairs(codecs) do
      local low, high = ({ gzip = 1, zstd = -50, lz4 = 9 })[codec], ({ gzip = 9, zstd = 19, lz4 = 12 })[codec]
      if low then
        local name = "compression_" .. codec .. "_level"
        local least, most = size(codec, { [name] = high }), size(codec, { [name] = low })
        assert(least < most)
        assert.equal(most, size("none", { [name] = low, compression_type = codec }))
        local usual = size(codec, {})
        assert(usual >= least and usual <= most)
      end
    end
  end)
end)

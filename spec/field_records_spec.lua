-- What went wrong with times, sizes and positions of records in stores in the field, told again: docs/field-failures-covered.md.
local support = require "support"
local disk = require "disk"

describe("look-ups by time, where others have failed,", function()
  after_each(support.cleanup)

  it("go on behind a deleted record (franz-go 1432, 1433)", function()
    local topic = support.topic { retention_ms = -1 }
    topic:append_batch { { key = "a", value = "1", timestamp = 100 }, { key = "b", value = "1", timestamp = 50 } }
    topic:roll()
    topic:append_batch { { key = "c", value = "1", timestamp = 90 } }
    assert.equal(0, topic:offset_for_time(80))
    topic:delete_records(1)
    assert.equal(2, topic:offset_for_time(80))                -- Kafka: none
    assert.equal(1, topic:offset_for_time(50))
    assert.is_nil((topic:offset_for_time(91)))
    assert.equal("c=1", support.words(topic:records { from = { time = 80 } }))
  end)

  it("say nil for none, and never an offset below the log start (Redpanda 4308, 18599)", function()
    local topic = support.topic { retention_ms = -1 }
    assert.same({ n = 1 }, { n = select("#", topic:offset_for_time(0)), topic:offset_for_time(0) })
    for i = 0, 9 do topic:append("k", tostring(i), { timestamp = 1000 + i }) end
    assert.same({ n = 1 }, { n = select("#", topic:offset_for_time(1010)), topic:offset_for_time(1010) })
    topic:delete_records(7)
    for ms = -10, 1006 do assert.equal(7, topic:offset_for_time(ms)) end
    topic:delete_records(10)
    for ms = -10, 1010 do assert.is_nil((topic:offset_for_time(ms))) end
    assert.equal("", support.words(topic:records { from = { time = 0 } }))
  end)

  it("find the first record with the largest time of a batch (KAFKA-16310, KAFKA-16342, KAFKA-12981)", function()
    for _, codec in ipairs { "none", "gzip", "snappy", "lz4", "zstd" } do
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", { retention_ms = -1 })
      local batch = {}
      for i, ms in ipairs { 5, 9, 9, 1 } do batch[i] = { key = "k" .. i, value = ("v"):rep(100), timestamp = ms } end
      local first, message, code = topic:append_batch(batch, { compression = codec })
      if not first then assert.equal("unsupported", code, message) end
      for _ = 1, first and 3 or 0 do
        assert.equal(9, topic:segments()[1].max_timestamp)
        assert.equal(1, topic:offset_for_time(9))
        assert.same({ 0, 1 }, { topic:offset_for_time(5), (topic:offset_for_time(6)) })
        assert.is_nil((topic:offset_for_time(10)))
        store:close()
        for _, name in ipairs(disk.list(path .. "/t-0", "index")) do os.remove(path .. "/t-0/" .. name) end
        store = support.open(path)
        topic = store:topic "t"
      end
    end
  end)

  it("take no time below zero; -1 is none (testAppendWithNoTimestamp)", function()
    local topic = support.topic { retention_ms = 1000 }
    for _, ms in ipairs { -2, -3, -10 ^ 9, -2 ^ 53 } do
      assert.equal("invalid_timestamp", select(3, topic:append("k", "v", { timestamp = ms })))
      assert.equal("invalid_timestamp", select(3, topic:append_batch { { key = "k", timestamp = 5 }, { key = "k", timestamp = ms } }))
    end
    assert.equal(0, topic:latest())
    local now = support.now
    topic:append_batch { { key = "a", value = "1", timestamp = -1 } }       -- the file's time counts
    topic:roll()
    topic:append_batch { { key = "b", value = "1", timestamp = -1 }, { key = "c", value = "1", timestamp = now - 400 } }
    topic:roll()
    assert.equal(-1, support.collect(topic:records())[1].timestamp)
    assert.equal(now - 400, topic:segments()[2].max_timestamp)
    assert.equal(0, topic:retain({ now = now + 600 }).segments)
    assert.equal(0, topic:retain({ now = now + 1000 }).segments)            -- the second one is due, and waits for the first
    assert.equal(2, topic:retain({ now = now + 1001 }).segments)
  end)
end)

describe("sizes, where others have failed,", function()
  after_each(support.cleanup)

  local function of(size, n)                                  -- a batch of n records, `size` bytes as a whole
    local batch = {}
    for i = 1, n do batch[i] = { key = "k", value = "" } end
    batch[n].value = ("v"):rep(size - 61 - 8 * n)
    return batch
  end

  it("count by the batch as it is written (KAFKA-4203, librdkafka 1472)", function()
    local topic = support.topic { max_message_bytes = 110, segment_bytes = 120 }
    topic:append_batch(of(110, 2))
    assert.equal(110, topic:segments()[1].size)
    local bytes = disk.read(topic:segments()[1].path)
    local function refused(batch, options, said)
      local _, message, code = topic:append_batch(batch, options)
      assert.equal("too_large", code)
      assert.truthy(message:find(said, 1, true), message)
      assert.equal(2, topic:latest())
      assert.same({ 1, bytes }, { #topic:segments(), disk.read(topic:segments()[1].path) })
    end
    refused(of(111, 2), nil, "max.message.bytes")
    refused({ { key = "k", value = ("v"):rep(1000) } }, nil, "max.message.bytes")
    topic:alter { max_message_bytes = 200 }
    refused(of(121, 2), nil, "segment.bytes")
    topic:append_batch(of(120, 2))
    assert.equal(2, #topic:segments())
    local packed, _, code = topic:append_batch({ { key = "k", value = ("v"):rep(1000) } }, { compression = "gzip" })
    assert(packed == 4 or code == "unsupported")
  end)
end)

describe("consumers, where others have failed,", function()
  after_each(support.cleanup)

  it("hear that a position is outside the log (librdkafka 521, 3745, confluent-kafka-dotnet 2009)", function()
    local topic = support.topic { retention_ms = -1 }
    for i = 0, 99 do topic:append("k", tostring(i)) end
    topic:delete_records(50)
    for _, from in ipairs { 5, 49, 101, 10 ^ 9 } do
      local err = support.raised(function() return topic:records { from = from } end)
      assert.equal("offset_out_of_range", err.code)
      for _, number in ipairs { from, 50, 100 } do assert.truthy(err.message:find(("%.0f"):format(number), 1, true), err.message) end
    end
    assert.equal(50, (topic:records { from = "earliest" }()))
    assert.is_nil((topic:records { from = "latest" }()))
    assert.is_nil((topic:records { from = 100 }()))
    assert.equal(50, (topic:records { from = 50 }()))
  end)

  -- What a group's log of committed offsets will be: of each key the latest counts, a tombstone is no commit.
  it("find the latest value of a key in a compacted log, and none behind a tombstone (librdkafka 1442, 1372)", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact", delete_retention_ms = 1000 })
    local function commit(group, offset) topic:append(group, offset) end
    for i = 1, 5 do
      commit("a", i)
      commit("b", i)
      commit("c", 10 - i)
    end
    commit("b", nil)
    topic:roll()
    for round = 1, 4 do
      local state = store:table "t"
      assert.same({ "5", "5", 2 }, { state:get "a", state:get "c", state:count() }, "round " .. round)
      assert.is_nil(state:get "b")
      commit("a", 5)                                          -- committed again: still there, and new
      topic:roll()
      topic:compact { force = true }
      support.now = support.now + 1000
      store:close()
      store = support.open(path)
      topic = store:topic "t"
    end
    assert.equal("c=5 a=5", support.words(topic:records()))
  end)

  it("bear a tombstone of a key that they have not seen (KAFKA-17306)", function()
    local topic, store = support.topic { cleanup_policy = "compact" }
    topic:append("never", nil)
    topic:append("never", nil)
    topic:append("a", "1")
    local heard = {}
    local state = assert(store:table("t", { on_change = function(key, new) heard[#heard + 1] = key .. "=" .. tostring(new) end }))
    assert.same({ 1, "1", { "a=1" } }, { state:count(), state:get "a", heard })
    topic:append("nor this", nil)
    topic:append("a", nil)
    assert.equal(2, state:update())                           -- records applied
    assert.same({ "a=1", "a=nil" }, heard)
  end)
end)

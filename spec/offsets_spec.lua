-- The records of `__consumer_offsets`: those that Kafka's group coordinator has written, and ours. (`make kafka` shows ours to Kafka.)
local sediment = require "sediment"
local support = require "support"
local bytes = require "sediment.bytes"
local offsets = require "sediment.offsets"

describe("numbers as bytes", function()
  it("come back as they were", function()
    for _, n in ipairs { 0, 1, -1, 255, 256, 2 ^ 31, -2 ^ 31, 2 ^ 32, 2 ^ 53, -2 ^ 53, 1700000000123 } do
      assert.equal(n, bytes.reader(bytes.i64(n)):i64())
    end
    for _, n in ipairs { 0, 1, -1, 2 ^ 31 - 1, -2 ^ 31 } do assert.equal(n, bytes.reader(bytes.i32(n)):i32()) end
    for _, n in ipairs { 0, 127, 128, 300, 2 ^ 21, 2 ^ 31 } do assert.equal(n, bytes.reader(bytes.varint(n)):varint()) end
  end)

  it("are Kafka's, big endian", function()
    assert.equal("\0\1", bytes.i16(1))
    assert.equal("\255\255\255\255", bytes.i32(-1))
    assert.equal("\255\255\255\255\255\255\255\255", bytes.i64(-1))
    assert.equal("\0\0\1\139\207\229\104\0", bytes.i64(1700000000000))
    assert.equal("\172\2", bytes.varint(300))
  end)

  it("that are cut off are none", function()
    local whole = bytes.i64(5) .. bytes.text "abc"
    for size = 0, #whole - 1 do
      local r = bytes.reader(whole:sub(1, size))
      r:i64()
      assert.is_nil(r:text())
    end
    assert.is_nil(bytes.reader("\255\255\255\255\255\255"):varint())
    assert.is_nil(bytes.reader("\255\255ab"):text())
  end)
end)

describe("offsets", function()
  after_each(support.cleanup)

  it("of a broker are understood", function()
    local dir = support.kafka_directory "broker-consumer-offsets"
    local partition = assert(sediment.open_partition(dir))
    local found = {}
    for _, key, value in partition:records() do
      local said = offsets.decode_key(key)
      if said and said.topic then
        local name = ("%s %s-%d"):format(said.group, said.topic, said.partition)
        local commit = value and offsets.decode_value(value)
        assert(not value or commit, name)
        found[name] = commit and commit.offset
      end
    end
    partition:close()
    assert.truthy(next(found))
    local names = {}
    for name, offset in pairs(found) do names[#names + 1] = name .. " " .. offset end
    table.sort(names)
    assert.same({ "desk stamped-0 351" }, names)
  end)

  it("of a broker come with the members of its groups", function()
    local partition = assert(sediment.open_partition(support.kafka_directory "broker-consumer-offsets"))
    local states = {}
    for offset, key, value in partition:records() do
      local said = offsets.decode_key(key)
      if not said.topic then states[offset] = assert(offsets.decode_group(value)) end
    end
    partition:close()
    local member = states[1].members[1]
    assert.same({ 1, 1795993263617 }, { states[1].generation, states[1].timestamp })
    assert.same({ "rdkafka", "/127.0.0.1", { stamped = { 0 } } }, { member.client_id, member.host, member.assignment })
    assert.matches("^rdkafka%-", member.id)
    assert.same({ 2, 0 }, { states[4].generation, #states[4].members })
    assert.is_nil(offsets.decode_group "\0\3\0\8consumer\0\0\0\1\255\255\255\255\0\0\0\0\0\0\0\9\0\0\0\1\0\5")
  end)

  it("come back as they were, in each version of Kafka's", function()
    local commit = { offset = 2 ^ 40 + 5, metadata = "wä", timestamp = 1700000000123, topic_id = ("\1\2"):rep(8) }
    assert.same(commit, offsets.decode_value(offsets.value(commit)))
    commit.topic_id = nil
    assert.same(commit, offsets.decode_value(offsets.value(commit)))
    local v0 = bytes.i16(0) .. bytes.i64(7) .. bytes.text "m" .. bytes.i64(9)
    assert.same({ offset = 7, metadata = "m", timestamp = 9 }, offsets.decode_value(v0))
    assert.same({ offset = 7, metadata = "m", timestamp = 9 }, offsets.decode_value(bytes.i16(1) .. v0:sub(3) .. bytes.i64(-1)))
    local v3 = bytes.i16(3) .. bytes.i64(7) .. bytes.i32(4) .. bytes.text "m" .. bytes.i64(9)
    assert.same({ offset = 7, metadata = "m", timestamp = 9 }, offsets.decode_value(v3))
    assert.is_nil(offsets.decode_value(bytes.i16(5) .. v3:sub(3)))
    for size = 0, #v3 - 1 do assert.is_nil(offsets.decode_value(v3:sub(1, size))) end
  end)

  it("have keys of group, topic and partition", function()
    local key = offsets.key("grüße", "t", 7)
    assert.equal("\0\1\0\7grüße\0\1t\0\0\0\7", key)
    assert.same({ group = "grüße", topic = "t", partition = 7 }, offsets.decode_key(key))
    assert.same({ group = "g" }, offsets.decode_key(offsets.group_key "g"))
    for size = 0, #key - 1 do assert.is_nil(offsets.decode_key(key:sub(1, size))) end
    assert.is_nil(offsets.decode_key "\0\9whatever")
  end)

  -- What Utils.abs(group.hashCode()) % 50 is in Java.
  it("stand where Kafka's coordinator looks for them", function()
    local expected = {
      g = 3, desk = 33, ["grüße"] = 23, ["日本語"] = 43, ["a-long-group-name-with-some-text"] = 6, ["😀x"] = 39, polygenelubricants = 0,
    }
    for group, p in pairs(expected) do assert.equal(p, offsets.partition_of(group, 50), group) end
  end)

  it("are in as many partitions as the store says when the first is committed", function()
    local path = support.path()
    local store = support.open(path, { options = { ["offsets.topic.num.partitions"] = 50, ["offsets.topic.segment.bytes"] = "1MiB" } })
    store:topic("t", {}):append("k", "v")
    for _, group in ipairs { "g", "grüße" } do
      local c = assert(store:consumer { group = group, topics = { "t" } })
      c:poll()
      assert.is_true(c:commit())
      c:close()
    end
    local topic = store:topic "__consumer_offsets"
    assert.same({ 50, "compact", 2 ^ 20 }, { topic:partitions(), topic:config()["cleanup.policy"], topic:config()["segment.bytes"] })
    assert.truthy(topic:latest(3) > 0 and topic:latest(23) > 0)
    assert.same({ "g", "grüße" }, store:groups())
  end)

  it("of an imported topic go on", function()
    local dir = support.kafka_directory "broker-consumer-offsets"
    local store = support.open()
    assert(store:import("__consumer_offsets", dir))
    local names = {}
    for name in pairs(assert(offsets.all(store))) do names[#names + 1] = name end
    assert.truthy(#names > 0)
    assert.same({}, store:groups())                              -- the topics that they speak of are not here
  end)
end)

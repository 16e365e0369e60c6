-- append_batch: a batch of its own, all or nothing.
local support = require "support"
local disk = require "disk"

describe("append_batch", function()
  local topic

  before_each(function() topic = support.topic() end)
  after_each(support.cleanup)

  it("answers with the first and the last offset", function()
    assert.same({ 0, 2 }, { topic:append_batch { { key = "a" }, { key = "b" }, { key = "c" } } })
    assert.same({ 3, 3 }, { topic:append_batch { { value = "v" } } })
    topic:append("x", "y")
    assert.same({ 5, 6 }, { topic:append_batch { {}, {} } })
  end)

  it("is one batch in the file, with Kafka's bytes", function()
    topic:append_batch { { key = "k", value = "v1", timestamp = 1700000000000 }, { key = "", value = "", timestamp = 1700000000001 },
                         { key = "k", timestamp = 1699999999995, headers = { { "h" }, { "", "x" } } } }
    local hex = disk.read(topic:segments()[1].path):gsub(".", function(c) return string.format("%02x", c:byte()) end)
    assert.equal("00000000000000000000005000000000025cf9edd50000000000020000018bcfe568000000018bcfe56801ffffffffffffffffffffffffffff" ..
                 "0000000312000000026b047631000c0002020000001a000904026b0104026801000278", hex)
  end)

  it("writes what was staged before it first", function()
    topic:append("a", "1")
    topic:append("b", "1")
    topic:append_batch { { key = "c" }, { key = "d" } }
    topic:append("e", "1")
    topic:flush()
    local shape = {}
    for _, b in ipairs(disk.batches(disk.read(topic:segments()[1].path))) do shape[#shape + 1] = b.base_offset .. "-" .. b.last_offset end
    assert.equal("0-1 2-3 4-4", table.concat(shape, " "))
  end)

  local function refused(code, records, options)
    local end_offset, result, message, got = topic:latest(), topic:append_batch(records, options)
    assert.is_nil(result)
    assert.equal(code, got)
    assert.equal("string", type(message))
    assert.equal(end_offset, topic:latest())
    return message
  end

  it("writes nothing when one record is bad", function()
    refused("invalid_record", {})
    refused("invalid_timestamp", { { key = "a" }, { key = "b", timestamp = support.now + 3600001 }, { key = "c" } })
    refused("unknown_partition", { { key = "a" } }, { partition = 1 })
    topic:alter { cleanup_policy = "compact" }
    local message = refused("invalid_record", { { key = "a" }, { value = "v" } })
    assert.matches("2", message)
    topic:alter { max_message_bytes = 100 }
    refused("too_large", { { key = "a", value = ("x"):rep(20) }, { key = "b", value = ("x"):rep(20) } })
    topic:alter({ segment_bytes = 100 }, { "max.message.bytes" })
    refused("too_large", { { key = "a", value = ("x"):rep(20) }, { key = "b", value = ("x"):rep(20) } })
    assert.equal(0, topic:latest())
    assert(topic:append_batch { { key = "a" }, { key = "b" } })
  end)

  it("goes to one partition", function()
    local store = support.open()
    topic = store:topic("many", { partitions = 6 })
    assert.matches("partition", refused("invalid_record", { { key = "a" }, { key = "ab" } }))     -- 4 and 2 of 6
    assert.same({ 0, 1 }, { topic:append_batch { { key = "ab" }, { key = "abcd" } } })             -- both 2
    assert.equal(2, topic:latest(2))
    assert.same({ 0, 1 }, { topic:append_batch({ { key = "a" }, { key = "ab" } }, { partition = 5 }) })
    assert.equal(2, topic:latest(5))
    assert.same({ 2, 3 }, { topic:append_batch { { key = "ab" }, { value = "no key" } } })
    assert.equal(4, topic:latest(2))
    assert(topic:append_batch { { value = "1" }, { value = "2" } })
    local total = 0
    for p = 0, 5 do total = total + topic:latest(p) end
    assert.equal(8, total)
  end)

  it("is durable with sync", function()
    topic:append_batch({ { key = "a" }, { key = "b" } }, { sync = true })
    assert.equal(2, topic:stats().partitions[0].durable_offset)
  end)

  it("has one time under LogAppendTime", function()
    topic:alter { message_timestamp_type = "LogAppendTime" }
    topic:append_batch { { key = "a", timestamp = 1 }, { key = "b", timestamp = 10 ^ 15 }, { key = "c", timestamp = -1 } }
    for _, r in ipairs(support.collect(topic:records())) do assert.equal(support.now, r.timestamp) end
    local b = disk.batches(disk.read(topic:segments()[1].path))[1]
    assert.same({ 8, support.now }, { b.attributes, b.max_timestamp })
  end)
end)

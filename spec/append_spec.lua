-- Appending one record: offsets, timestamps, what is refused and that nothing of it is written.
local support = require "support"
local disk = require "disk"

describe("append", function()
  after_each(support.cleanup)

  it("numbers records from 0 on, partition by partition", function()
    local topic = support.topic { partitions = 2 }
    for i = 0, 9 do
      for p = 0, 1 do assert.same({ i, p }, { topic:append("k", "v", { partition = p }) }) end
    end
    assert.same({ 10, 10 }, { topic:latest(0), topic:latest(1) })
  end)

  it("is read back at once, as it was given", function()
    local topic = support.topic()
    topic:append("k", "v", { timestamp = support.now - 7, headers = { { "h", "1" }, { "h" }, { "", "" } } })
    topic:append(nil, "v")
    topic:append("", "")
    topic:append("gone", nil)
    local list = support.collect(topic:records())
    local headers = { { "h", "1" }, { "h" }, { "", "" } }
    assert.same({ offset = 0, key = "k", value = "v", timestamp = support.now - 7, headers = headers }, list[1])
    assert.same({ offset = 1, value = "v", timestamp = support.now }, list[2])
    assert.same({ offset = 2, key = "", value = "", timestamp = support.now }, list[3])
    assert.same({ offset = 3, key = "gone", timestamp = support.now }, list[4])
  end)

  it("takes any size up to max.message.bytes", function()
    local topic = support.topic { max_message_bytes = 300000 }
    local sizes = { 0, 1, 63, 64, 8191, 8192, 16384, 65440, 65475, 65536, 299000 }
    for i, n in ipairs(sizes) do assert.equal(i - 1, (topic:append("k" .. i, (string.char(64 + i)):rep(n)))) end
    assert.equal("too_large", select(3, topic:append("k", ("x"):rep(300000))))
    assert.equal(#sizes, topic:latest())
    local list = support.collect(topic:records())
    for i, n in ipairs(sizes) do assert(list[i].value == (string.char(64 + i)):rep(n), "value " .. i) end
  end)

  it("counts the header and the batch into max.message.bytes", function()
    local topic = support.topic { max_message_bytes = 100 }
    -- 61 bytes of header; of the record: length 1, attributes 1, deltas 2, key 2, value 1 + n, headers 1
    assert(topic:append("k", ("x"):rep(100 - 61 - 8)))
    local result, message, code = topic:append("k", ("x"):rep(100 - 61 - 7))
    assert.is_nil(result)
    assert.equal("too_large", code)
    assert.matches("101", message)
    assert.matches("max.message.bytes", message)
  end)

  it("refuses what is larger than a segment", function()
    local topic = support.topic { segment_bytes = 200 }
    local _, message, code = topic:append("k", ("x"):rep(300))
    assert.equal("too_large", code)
    assert.matches("segment.bytes", message)
    assert.equal(0, topic:latest())
  end)

  it("needs a key under compact", function()
    local topic = support.topic { cleanup_policy = "compact,delete" }
    assert.equal("invalid_record", select(3, topic:append(nil, "v")))
    assert.equal(0, topic:latest())
    assert(topic:append("", "v"))
    topic:alter { cleanup_policy = "delete" }
    assert(topic:append(nil, "v"))
  end)

  describe("with a timestamp", function()
    it("refuses one that is too far from the clock", function()
      local topic = support.topic { message_timestamp_before_max_ms = 1000, message_timestamp_after_max_ms = 500 }
      local function code(delta) return select(3, topic:append("k", "v", { timestamp = support.now + delta })) end
      assert.is_nil(code(-1000))
      assert.equal("invalid_timestamp", code(-1001))
      assert.is_nil(code(500))
      assert.equal("invalid_timestamp", code(501))
      assert(topic:append("k", "v", { timestamp = -1 }))
      assert.equal(3, topic:latest())
    end)

    it("takes an hour ahead by default, and any past", function()
      local topic = support.topic()
      assert(topic:append("k", "v", { timestamp = support.now + 3600000 }))
      assert.equal("invalid_timestamp", select(3, topic:append("k", "v", { timestamp = support.now + 3600001 })))
      assert(topic:append("k", "v", { timestamp = 0 }))
      topic:alter { message_timestamp_after_max_ms = 2 ^ 63 }
      assert(topic:append("k", "v", { timestamp = 2 ^ 53 }))
      local list = support.collect(topic:records())
      assert.same({ 0, 2 ^ 53 }, { list[2].timestamp, list[3].timestamp })
    end)

    it("overrules it under LogAppendTime", function()
      local topic = support.topic { message_timestamp_type = "LogAppendTime" }
      topic:append("k", "1", { timestamp = 5 })
      support.now = support.now + 10
      topic:append("k", "2", { timestamp = support.now + 10 ^ 12 })
      topic:append("k", "3", { timestamp = -1 })
      local list = support.collect(topic:records())
      assert.same({ support.now - 10, support.now, support.now }, { list[1].timestamp, list[2].timestamp, list[3].timestamp })
    end)
  end)

  it("gathers records into batches", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 1, 100 do topic:append("k" .. i, "v", { timestamp = support.now - i }) end
    assert.equal(0, #disk.read(topic:segments()[1].path))     -- still in the stage, and read all the same
    assert.equal(100, #support.collect(topic:records()))
    topic:flush()
    local batches = disk.batches(disk.read(topic:segments()[1].path))
    assert.equal(1, #batches)
    local b = batches[1]
    assert.same({ 0, 99, 100, support.now - 1 }, { b.base_offset, b.last_offset, b.count, b.max_timestamp })
    assert.equal(topic:segments()[1].size, b.size)
    for i, r in ipairs(b.records) do assert.same({ i - 1, "k" .. i, support.now - i }, { r.offset, r.key, r.timestamp }) end
  end)

  it("keeps a batch within batch.size", function()
    local topic = support.topic({}, { options = { ["batch.size"] = "1KiB" } })
    for i = 1, 500 do topic:append("key " .. i, "value") end
    topic:flush()
    local batches, count = disk.batches(disk.read(topic:segments()[1].path)), 0
    for _, b in ipairs(batches) do
      assert(b.size <= 1024)
      count = count + b.count
    end
    assert(#batches > 5 and #batches < 40)
    assert.equal(500, count)
  end)

  it("counts the staged records as the segment's", function()
    local topic = support.topic()
    topic:append("k", "v")
    local s = topic:segments()[1]
    assert.same({ 0, 1, support.now, "active" }, { s.base_offset, s.records, s.max_timestamp, s.state })
    assert.equal(61 + 9, s.size)
    assert.equal(61 + 9, topic:stats().partitions[0].size)
  end)

  it("keeps order across the stage and batches of their own", function()
    local topic = support.topic { segment_bytes = 500 }
    local n = 0
    for i = 1, 200 do
      if i % 3 == 0 then
        local first, last = topic:append_batch { { key = "b", value = tostring(n) }, { key = "b", value = tostring(n + 1) } }
        assert.same({ n, n + 1 }, { first, last })
        n = n + 2
      else
        assert.equal(n, (topic:append("s", tostring(n))))
        n = n + 1
      end
      if i % 17 == 0 then topic:roll() end
    end
    for i, r in ipairs(support.collect(topic:records())) do assert(r.offset == i - 1 and r.value == tostring(i - 1)) end
    assert.equal(n, topic:latest())
  end)

  it("is durable with sync, and after flush", function()
    local topic = support.topic()
    local function durable() return topic:stats().partitions[0].durable_offset end
    topic:append("k", "v")
    assert.equal(0, durable())
    topic:append("k", "v", { sync = true })
    assert.equal(2, durable())
    topic:append("k", "v")
    assert.equal(2, durable())
    assert.equal(3, topic:flush())
    assert.equal(3, durable())
    assert.equal(3, topic:flush())
  end)

  it("is durable every flush.messages", function()
    local topic = support.topic { flush_messages = 3 }
    local durable = {}
    for i = 1, 7 do
      topic:append("k", "v")
      durable[i] = topic:stats().partitions[0].durable_offset
    end
    assert.same({ 0, 0, 3, 3, 3, 6, 6 }, durable)
  end)

  it("is refused by a read-only store", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", {}):append("k", "v")
    local reader = support.open(path, { readonly = true })
    local topic = reader:topic "t"
    assert.equal("k=v", support.words(topic:records()))
    for _, call in ipairs { function() return topic:append("k", "v") end, function() return topic:append_batch { { key = "k" } } end,
                            function() return topic:roll() end, function() return topic:delete_records(1) end,
                            function() return topic:retain() end, function() return topic:alter { retention_ms = 1 } end,
                            function() return reader:maintain() end, function() return reader:delete_topic "t" end,
                            function() return reader:topic("new", {}) end } do
      local result, message, code = call()
      assert.is_nil(result)
      assert.equal("readonly", code)
      assert.equal("string", type(message))
    end
  end)

  it("refuses more headers than a reader takes", function()
    local topic = support.topic {}
    local headers = {}
    for i = 1, 100001 do headers[i] = { "h" } end
    local offset, message, code = topic:append("k", "v", { headers = headers })
    assert.same({ nil, "too_large" }, { offset, code })
    assert.truthy(message:find("100000", 1, true))
    headers[100001] = nil
    assert.equal(0, (assert(topic:append("k", "v", { headers = headers }))))
    assert.equal(100000, #support.collect(topic:records())[1].headers)
  end)
end)

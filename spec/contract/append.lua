-- append and append_batch: results, what is read back, where records go, what is refused.
local contract = require "contract.store"
local support = require "support"

local fails, raised = contract.fails, support.raised
local HEADERS = { { "a", "1" }, { "b" }, { "", "" } }
local T = 1700000000000

it("numbers records from 0 on, partition by partition", function()
  local topic = contract.topic { partitions = 2 }
  for i = 0, 4 do
    for p = 0, 1 do assert.same({ i, p }, { topic:append("k", "v", { partition = p }) }) end
  end
  assert.same({ 5, 5 }, { topic:latest(0), topic:latest(1) })
end)

it("gives records back as they were", function()
  local topic = contract.topic()
  assert.same({ 0, 0 }, { topic:append("k", "v", { timestamp = T, headers = HEADERS }) })
  assert.equal(1, (topic:append(24, 0.5, { timestamp = T })))
  assert.equal(2, (topic:append("", "", { timestamp = -1 })))
  assert.equal(3, (topic:append(nil, "keyless", { timestamp = T })))
  assert.equal(4, (topic:append("k", nil, { timestamp = 2 ^ 40, headers = {}, sync = true })))
  assert.equal(5, (topic:append("\0\255", ("\0"):rep(100000), { timestamp = T })))
  assert.same({
    { offset = 0, key = "k", value = "v", timestamp = T, headers = HEADERS },
    { offset = 1, key = "24", value = "0.5", timestamp = T },
    { offset = 2, key = "", value = "", timestamp = -1 },
    { offset = 3, value = "keyless", timestamp = T },
    { offset = 4, key = "k", timestamp = 2 ^ 40 },
    { offset = 5, key = "\0\255", value = ("\0"):rep(100000), timestamp = T },
  }, support.collect(topic:records()))
end)

it("takes the time from the clock", function()
  local now = T + 123
  local topic = contract.topic({}, { clock = function() return now end })
  topic:append("k", "v")
  now = now + 5
  topic:append_batch { { key = "k" }, { key = "k", timestamp = T } }
  local list = support.collect(topic:records())
  assert.same({ T + 123, T + 128, T }, { list[1].timestamp, list[2].timestamp, list[3].timestamp })
end)

it("sends a key where Kafka's producer does, and what has none in turn", function()
  local topic = contract.topic { partitions = 6 }
  for key, p in pairs { a = 4, ab = 2, abcd = 2 } do assert.equal(p, select(2, topic:append(key, "v")), key) end
  assert.equal(select(2, topic:append("24", "v")), select(2, topic:append(24, "v")))
  local seen, count = {}, 0
  for _ = 1, 6 do
    local p = select(2, topic:append(nil, "v"))
    count = count + (seen[p] and 0 or 1)
    seen[p] = true
  end
  assert.equal(6, count)
end)

it("refuses what the topic does not take, and goes on behind it", function()
  local topic = contract.topic { cleanup_policy = "compact", ["message.timestamp.before.max.ms"] = "1h", max_message_bytes = 2000 }
  fails("invalid_record", topic:append(nil, "v"))
  fails("invalid_timestamp", topic:append("k", "v", { timestamp = -2 }))
  fails("invalid_timestamp", topic:append("k", "v", { timestamp = 1000 }))
  fails("invalid_timestamp", topic:append("k", "v", { timestamp = os.time() * 1000 + 2 * 3600000 }))
  fails("unknown_partition", topic:append("k", "v", { partition = 9 }))
  fails("too_large", topic:append("k", ("x"):rep(3000)))
  assert.equal(0, topic:latest())
  assert.same({ 0, 0 }, { topic:append("k", "v") })
end)

it("takes a timestamp of 0 where it can", function()
  local topic = contract.topic()
  if contract.has "timestamp 0" then assert.equal(0, (topic:append("k", "v", { timestamp = 0 })))
  else
    fails("unsupported", topic:append("k", "v", { timestamp = 0 }))
    fails("unsupported", topic:append_batch { { key = "k" }, { key = "k", timestamp = 0 } })
    assert.equal(0, topic:latest())
  end
end)

it("raises mistakes with the same words", function()
  local topic = contract.topic()
  local function refuses(what, ...) assert.matches(what, raised(topic.append, topic, ...)) end
  refuses("key: string or whole number expected, got table", {}, "v")
  refuses("key: string or whole number expected, got 2.5", 2.5, "v")
  refuses("value: string or finite number expected, got boolean", "k", true)
  refuses("unknown option 'foo'", "k", "v", { foo = 1 })
  refuses("timestamp: a whole number within 2^53 expected", "k", "v", { timestamp = "now" })
  refuses("partition: a whole number within 2^53 expected", "k", "v", { partition = 0.5 })
  refuses("headers", "k", "v", { headers = { "x" } })
  assert.matches("call it with ':'", raised(topic.append, "k", "v"))
  assert.matches("records", raised(topic.append_batch, topic, "k"))
  assert.matches("unknown option 'foo'", raised(topic.append_batch, topic, { { key = "k" } }, { foo = 1 }))
  assert.equal(0, topic:latest())
end)

describe("in a batch", function()
  it("goes to one partition, in order, and tells the first and the last offset", function()
    local topic = contract.topic { partitions = 6 }
    assert.same({ 0, 1 }, { topic:append_batch { { key = "ab", value = "1", headers = HEADERS }, { key = "abcd", value = "2" } } })
    assert.same({ 2, 3 }, { topic:append_batch { { key = "ab" }, { value = "no key" } } })
    assert.equal(4, topic:latest(2))
    assert.same({ 0, 1 }, { topic:append_batch({ { key = "a" }, { key = "ab" } }, { partition = 5 }) })
    assert.equal("ab=1 abcd=2 ab- nil=no key", support.words(topic:records { partition = 2 }))
    assert.same(HEADERS, (select(5, topic:records { partition = 2 }())))
  end)

  it("is refused whole when that is known beforehand", function()
    local topic = contract.topic { partitions = 6 }
    fails("invalid_record", topic:append_batch {})
    assert.matches("partition", fails("invalid_record", topic:append_batch { { key = "a" }, { key = "ab" } }))
    fails("unknown_partition", topic:append_batch({ { key = "a" } }, { partition = 6 }))
    fails("invalid_timestamp", topic:append_batch { { key = "a" }, { key = "a", timestamp = -2 } })
    for p = 0, 5 do assert.equal(0, topic:latest(p)) end
  end)

  it("is refused by what the topic takes", function()
    local topic = contract.topic { cleanup_policy = "compact", max_message_bytes = 2000 }
    fails("invalid_record", topic:append_batch { { key = "a" }, { value = "v" } })
    fails("too_large", topic:append_batch { { key = "a", value = ("x"):rep(3000) } })
    if contract.has "batches whole" then assert.equal(0, topic:latest()) end
    assert(topic:append_batch { { key = "a" } })
  end)

  it("is compressed by every codec", function()
    local topic, values = contract.topic(), {}
    for _, codec in ipairs { "none", "gzip", "snappy", "lz4", "zstd" } do
      assert(topic:append_batch({ { value = codec }, { value = codec .. "!" } }, { compression = codec }))
    end
    for _, _, value in topic:records() do values[#values + 1] = value end
    assert.equal("none none! gzip gzip! snappy snappy! lz4 lz4! zstd zstd!", table.concat(values, " "))
    assert.matches("compression", raised(topic.append_batch, topic, { { key = "k" } }, { compression = "zip" }))
  end)

  it("may have thousands of records", function()
    local topic, batch = contract.topic(), {}
    for i = 1, 20000 do batch[i] = { key = "k", value = ("%06d"):format(i) } end
    assert.same({ 0, 19999 }, { topic:append_batch(batch) })
    local n = 0
    for offset, _, value in topic:records() do
      assert(offset == n and tonumber(value) == n + 1)
      n = n + 1
    end
    assert.equal(20000, n)
  end)
end)

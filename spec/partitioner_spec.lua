-- The default partitioner is Kafka's: murmur2 of the key, the sign bit cleared, modulo the number of partitions.
local support = require "support"

describe("the default partitioner", function()
  after_each(support.cleanup)

  local MURMUR2 = {
    [""] = 275646681, ["a"] = -1563381124, ["ab"] = 316155434, ["abc"] = 479470107, ["abcd"] = -1323649548, ["21"] = -973932308,
    ["foobar"] = -790332482, ["a-little-bit-long-string"] = -985981536, ["a-little-bit-longer-string"] = -1486304829,
  }
  local OF_SIX = {
    [""] = 3, ["a"] = 4, ["ab"] = 2, ["abc"] = 3, ["abcd"] = 2, ["21"] = 0, ["foobar"] = 0, ["a-little-bit-long-string"] = 2,
    ["a-little-bit-longer-string"] = 5,
  }

  it("puts keys where a Kafka producer would", function()
    local topic = support.topic { partitions = 6 }
    for key, partition in pairs(OF_SIX) do assert.equal(partition, (select(2, topic:append(key, "v"))), key) end
    assert.equal(0, (select(2, topic:append(21, "v"))))       -- a number is its text
  end)

  it("does so for any number of partitions", function()
    local store = support.open()
    for _, n in ipairs { 1, 2, 7, 12, 31 } do
      local topic = store:topic("t" .. n, { partitions = n })
      for key, hash in pairs(MURMUR2) do
        local positive = hash < 0 and hash + 2147483648 or hash
        assert.equal(positive % n, (select(2, topic:append(key, "v"))), key)
        assert.same({ 1, 1 }, { topic:append_batch { { key = key } } and 1, 1 })
      end
    end
  end)

  it("keeps all records of a key in one partition, in order", function()
    local topic, where, count = support.topic { partitions = 5 }, {}, {}
    for i = 1, 500 do
      local key = "k" .. i % 23
      local _, p = topic:append(key, tostring(i))
      assert(where[key] == nil or where[key] == p)
      where[key] = p
    end
    for p = 0, 4 do
      local last = {}
      for _, key, value in topic:records { partition = p } do
        assert.equal(p, where[key])
        assert(not last[key] or last[key] < tonumber(value))
        last[key] = tonumber(value)
        count[p] = (count[p] or 0) + 1
      end
    end
    assert.equal(5, #count + 1)
  end)

  it("spreads records without a key evenly", function()
    local topic = support.topic { partitions = 4 }
    for _ = 1, 40 do topic:append(nil, "v") end
    for p = 0, 3 do assert.equal(10, topic:latest(p)) end
  end)

  it("is overruled by partition=", function()
    local topic = support.topic { partitions = 6 }
    assert.same({ 0, 1 }, { topic:append("a", "v", { partition = 1 }) })
  end)

  it("counts the partitions that there are now", function()
    local topic = support.topic { partitions = 1 }
    assert.equal(0, (select(2, topic:append("a", "v"))))
    topic:alter { partitions = 6 }
    assert.equal(4, (select(2, topic:append("a", "v"))))
    assert.same({ 1, 1 }, { topic:latest(0), topic:latest(4) })
  end)
end)

-- What partitions and segments tell of themselves.
local support = require "support"
local disk = require "disk"

describe("stats", function()
  after_each(support.cleanup)

  local function of(topic, p) return assert(topic:stats()).partitions[p or 0] end

  it("of a new partition are these", function()
    local topic = support.topic()
    local s = of(topic)
    assert.same({ 0, 0, 0, 0, 1, 0, 0, -1, 0, 0 },
                { s.log_start_offset, s.log_end_offset, s.durable_offset, s.size, s.segments, s.dirty_ratio, s.clean_offset, s.purge_floor,
                  s.truncated_bytes, s.corrupt_batches })
  end)

  it("number partitions from 0", function()
    local topic = support.topic { partitions = 3 }
    topic:append("k", "v", { partition = 2 })
    local partitions = topic:stats().partitions
    assert.same({ 0, 0, 1 }, { partitions[0].log_end_offset, partitions[1].log_end_offset, partitions[2].log_end_offset })
    assert.is_nil(partitions[3])
  end)

  it("follow what happens", function()
    local topic = support.topic { cleanup_policy = "compact,delete", delete_retention_ms = 0, retention_ms = -1 }
    for i = 1, 10 do topic:append("k" .. i % 2, i < 9 and "v" or nil) end
    assert.equal(10, of(topic).log_end_offset)
    assert.equal(0, of(topic).durable_offset)
    topic:flush()
    assert.equal(10, of(topic).durable_offset)
    topic:roll()
    assert.same({ 2, 1, 0 }, { of(topic).segments, of(topic).dirty_ratio, of(topic).clean_offset })
    topic:compact()
    assert.same({ 0, 10, -1 }, { of(topic).dirty_ratio, of(topic).clean_offset, of(topic).purge_floor })
    topic:compact()
    assert.equal(9, of(topic).purge_floor)
    topic:append("x", "y")
    topic:delete_records(10)
    assert.equal(10, of(topic).log_start_offset)
  end)

  it("have the dirty ratio in bytes", function()
    local topic = support.topic { cleanup_policy = "compact", min_cleanable_dirty_ratio = 1 }
    topic:append_batch { { key = "a", value = ("x"):rep(100) } }
    topic:roll()
    topic:compact { force = true }
    topic:append_batch { { key = "b", value = ("x"):rep(300) } }
    topic:roll()
    local s = topic:segments()
    assert.equal(s[2].size / (s[1].size + s[2].size), of(topic).dirty_ratio)
    assert.equal(s[1].size + s[2].size, of(topic).size)
    assert.same({ "clean", "dirty", "active" }, { s[1].state, s[2].state, s[3].state })
  end)

  it("of a topic without compaction have no dirty ratio", function()
    local topic = support.topic()
    topic:append("a", "1")
    topic:roll()
    assert.equal(0, of(topic).dirty_ratio)
  end)

  it("of a store are those of its topics", function()
    local store = support.open()
    assert.same({}, store:stats().topics)
    store:topic("a", { partitions = 2 }):append("k", "v", { partition = 1 })
    store:topic("b", {})
    local topics = store:stats().topics
    assert.equal(1, topics.a.partitions[1].log_end_offset)
    assert.same(store:topic("a"):stats(), topics.a)
    assert.same(store:topic("b"):stats(), topics.b)
  end)

  it("of segments agree with the files", function()
    local topic = support.topic { segment_bytes = 400, retention_ms = -1 }
    for i = 1, 50 do topic:append_batch { { key = "k", value = "v" .. i, timestamp = 1000 + i % 7 }, { key = "l", timestamp = -1 } } end
    local next_offset = 0
    for i, s in ipairs(topic:segments()) do
      local bytes = disk.read(s.path)
      local batches, records, newest = disk.batches(bytes), 0, -1
      for _, b in ipairs(batches) do
        records = records + b.count
        newest = math.max(newest, b.max_timestamp)
      end
      assert.same({ next_offset, #bytes, records, newest }, { s.base_offset, s.size, s.records, s.max_timestamp })
      assert.matches(disk.log(s.base_offset) .. "$", s.path)
      assert.equal(i == #topic:segments() and "active" or "dirty", s.state)
      next_offset = batches[#batches].last_offset + 1
    end
    assert.equal(100, next_offset)
  end)
end)

-- offset_for_time: the first offset at or above the log start whose record has the time or a later one, in whatever order times come.
local support = require "support"

describe("offset_for_time", function()
  after_each(support.cleanup)

  local function naive(topic, ms)
    for offset, _, _, timestamp in topic:records() do
      if timestamp >= ms then return offset end
    end
  end

  it("is nil when there is none", function()
    local topic = support.topic()
    assert.equal(1, select("#", topic:offset_for_time(0)))
    assert.is_nil((topic:offset_for_time(0)))
    topic:append("k", "v", { timestamp = 100 })
    assert.equal(0, topic:offset_for_time(100))
    assert.equal(0, topic:offset_for_time(-5))
    assert.is_nil((topic:offset_for_time(101)))
    topic:roll()
    assert.equal(0, topic:offset_for_time(100))
    assert.is_nil((topic:offset_for_time(101)))
  end)

  it("goes on to later segments", function()
    local topic = support.topic()
    topic:append("a", "1", { timestamp = 100 })
    topic:append("b", "1", { timestamp = 900 })
    topic:roll()
    topic:append("c", "1", { timestamp = 300 })
    topic:roll()
    topic:append("d", "1", { timestamp = 500 })
    assert.equal(1, topic:offset_for_time(200))
    topic:delete_records(2)                                   -- the first segment still says 900
    assert.equal(2, topic:offset_for_time(200))
    assert.equal(3, topic:offset_for_time(301))
    assert.is_nil((topic:offset_for_time(501)))
  end)

  it("looks past records without a timestamp", function()
    local topic = support.topic()
    topic:append("a", "1", { timestamp = -1 })
    topic:roll()
    topic:append("b", "1", { timestamp = -1 })
    topic:append("c", "1", { timestamp = 50 })
    assert.equal(2, topic:offset_for_time(0))
    assert.equal(2, topic:offset_for_time(50))
    assert.is_nil((topic:offset_for_time(51)))
  end)

  it("equals a search from the start, over random logs", function()
    math.randomseed(3)
    for round = 1, 30 do
      local store = support.open()
      local topic = store:topic("t", { segment_bytes = math.random(300, 3000), index_interval_bytes = math.random(0, 300),
                                       retention_ms = -1, segment_ms = "30d",
                                       cleanup_policy = round % 3 == 0 and "compact,delete" or "delete" })
      for _ = 1, math.random(5, 60) do
        local kind = math.random(10)
        if kind <= 5 then
          local batch = {}
          for i = 1, math.random(5) do
            batch[i] = { key = "k" .. math.random(20), value = "v", timestamp = math.random(8) == 1 and -1 or math.random(0, 2000) }
          end
          topic:append_batch(batch)
        elseif kind <= 8 then topic:append("k" .. math.random(20), "v", { timestamp = math.random(0, 2000) })
        elseif kind == 9 then topic:roll()
        else topic:delete_records(math.random(topic:earliest(), topic:latest())) end
        if round % 3 == 0 and math.random(10) == 1 then topic:compact { force = true } end
      end
      for ms = -50, 2050, 50 do
        assert.equal(naive(topic, ms), (topic:offset_for_time(ms)), "round " .. round .. " at " .. ms)
      end
      store:close()
    end
  end)

  it("is where records{from = {time = ms}} begins", function()
    local topic = support.topic()
    for i = 0, 9 do topic:append("k" .. i, "v", { timestamp = 1000 + i * 10 }) end
    assert.equal("k3=v k4=v", support.words(topic:records { from = { time = 1025 }, to = 5 }))
    assert.equal("", support.words(topic:records { from = { time = 2000 } }))
  end)

  it("speaks of the broker's time under LogAppendTime", function()
    local topic = support.topic { message_timestamp_type = "LogAppendTime" }
    for _ = 1, 5 do
      topic:append("k", "v", { timestamp = 1 })
      support.now = support.now + 10
    end
    assert.equal(2, topic:offset_for_time(support.now - 30))
    assert.equal(3, topic:offset_for_time(support.now - 29))
  end)
end)

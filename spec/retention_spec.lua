-- Retention: which segments go, in which order, what the log start becomes, and when the files go.
local support = require "support"
local disk = require "disk"

describe("retention", function()
  after_each(support.cleanup)

  -- Closed segments of one 100-byte batch each, with the given timestamps; the last one is active.
  local function segments(config, timestamps, path)
    local store = support.open(path)
    local topic = store:topic("t", config)
    for i, t in ipairs(timestamps) do
      topic:append_batch { { key = "k", value = ("v"):rep(30), timestamp = t } }
      if i < #timestamps then topic:roll() end
    end
    return topic, store
  end

  it("stops at the first segment that may stay", function()
    local now = support.now
    local topic = segments({ retention_ms = 1000 }, { now - 5000, now - 5000, now, now - 5000, now })
    assert.equal(2, topic:retain().segments)
    assert.equal(2, topic:earliest())
  end)

  it("is blocked by a timestamp in the future", function()
    local now = support.now
    local topic = segments({ retention_ms = 1000 }, { now + 60000, now - 5000, now })
    assert.equal(0, topic:retain({ now = now + 20000 }).segments)
    assert.equal(3, topic:retain({ now = now + 62000 }).segments)
  end)

  it("goes by the append when records have no time", function()
    local now = support.now
    local topic = segments({ retention_ms = 1000 }, { -1, -1, -1 })
    support.now = now + 800
    topic:append_batch { { key = "k", timestamp = -1 } }
    assert.equal(0, topic:retain({ now = now + 1000 }).segments)
    assert.equal(2, topic:retain({ now = now + 1001 }).segments)
    assert.equal(2, topic:earliest())
  end)

  it("goes by the append after a reopening as well", function()
    local path = support.path()
    local topic, store = segments({ retention_ms = 1000 }, { -1, -1 }, path)
    topic:roll()
    store:close()
    support.now = support.now + 1001
    assert.equal(2, support.open(path):topic("t"):retain().segments)
  end)

  it("by size takes what is over, never below retention.bytes", function()
    local times = {}
    for i = 1, 10 do times[i] = support.now end
    local topic = segments({ retention_ms = -1 }, times)
    local size = topic:segments()[1].size
    local function left(limit)
      topic:alter { retention_bytes = limit }
      topic:retain()
      return #topic:segments()
    end
    assert.equal(10, left(10 * size))
    assert.equal(10, left(9 * size + 1))
    assert.equal(9, left(9 * size))
    assert.equal(5, left(4 * size + 1))
    assert.equal(1, left(0))
    assert.equal(9, topic:earliest())
  end)

  it("by size and time together takes what either says", function()
    local now, times = support.now, {}
    for i = 1, 6 do times[i] = i <= 3 and now - 5000 or now end
    local topic = segments({ retention_ms = 1000, retention_bytes = 100000 }, times)
    assert.equal(3, topic:retain().segments)
    topic:alter { retention_bytes = 0 }
    assert.equal(2, topic:retain().segments)
  end)

  it("under compact alone is off, except below the log start", function()
    local old = support.now - 5000
    local topic = segments({ retention_ms = 1000, retention_bytes = 0, cleanup_policy = "compact,delete" }, { old, old, old })
    assert.equal(2, topic:delete_records(2))
    topic:alter { cleanup_policy = "compact" }
    assert.equal(2, topic:retain().segments)
    assert.equal(2, topic:earliest())
    assert.equal(0, topic:retain().segments)
  end)

  it("under no policy at all keeps, except below the log start", function()
    local topic = segments({ retention_ms = 0, cleanup_policy = "" }, { 1, 1, 1 })
    assert.equal(0, topic:retain().segments)
    assert.equal(1, topic:delete_records(1))
    assert.equal(1, topic:retain().segments)
  end)

  it("empties a log without losing its end", function()
    local path = support.path()
    local topic, store = segments({ retention_ms = 0 }, { 1, 1, 1 }, path)
    assert.equal(3, topic:retain().segments)
    assert.same({ 3, 3 }, { topic:earliest(), topic:latest() })
    store:close()
    topic = support.open(path):topic "t"
    assert.same({ 3, 3 }, { topic:earliest(), topic:latest() })
    assert.equal(3, (topic:append("k", "v")))
  end)

  it("seals and rolls what was staged when all has expired", function()
    local topic = support.topic { retention_ms = 1000 }
    topic:append("k", "v")
    support.now = support.now + 1001
    assert.equal(1, topic:retain().segments)
    assert.same({ 1, 1 }, { topic:earliest(), topic:latest() })
  end)

  it("unlinks files after file.delete.delay.ms", function()
    local now, path = support.now, support.path()
    local topic, store = segments({ retention_ms = 1000, file_delete_delay_ms = 5000 }, { 1, 1, now }, path)
    topic:retain()
    local dir = path .. "/t-0"
    assert.equal(8, #disk.list(dir, ".deleted"))
    assert.equal(0, store:maintain({ now = now + 900 }).files_deleted)
    assert.equal(8, #disk.list(dir, ".deleted"))
    support.now = now + 5000
    topic:append("k", "v")
    assert(store:maintain().files_deleted > 0)
    assert.equal(0, #disk.list(dir, ".deleted"))
  end)

  describe("by delete_records", function()
    it("moves the log start, durably, and answers with it", function()
      local path = support.path()
      local topic, store = segments({}, { 1, 1, 1, 1 }, path)
      assert.equal(0, topic:delete_records(0))
      assert.equal(2, topic:delete_records(2))
      assert.equal(2, topic:delete_records(1))
      assert.equal(2, topic:earliest())
      assert.equal("offset_out_of_range", select(3, topic:delete_records(-1)))
      assert.equal("offset_out_of_range", select(3, topic:delete_records(5)))
      assert.equal(2, topic:earliest())
      store:close()
      topic = support.open(path):topic "t"
      assert.equal(2, topic:earliest())
      assert.equal(4, topic:delete_records(4))
      assert.equal("", support.words(topic:records()))
    end)

    it("frees whole segments at the next retention, never the active one", function()
      local topic = support.topic { retention_ms = -1 }
      for i = 1, 6 do
        topic:append("k", "v")
        if i % 2 == 0 then topic:roll() end
      end
      topic:append("k", "v")
      topic:delete_records(3)
      assert.equal(4, #topic:segments())
      assert.equal(1, topic:retain().segments)
      assert.equal(3, topic:earliest())
      topic:delete_records(7)
      assert.equal(2, topic:retain().segments)
      assert.equal(1, #topic:segments())
      assert.equal(7, topic:earliest())
      assert.equal(0, topic:retain().segments)
      assert.equal(7, (topic:append("k", "v")))
    end)

    it("is refused under compact without delete", function()
      local topic = support.topic { cleanup_policy = "compact" }
      topic:append("k", "v")
      assert.equal("policy", select(3, topic:delete_records(1)))
      topic:alter { cleanup_policy = "compact,delete" }
      assert.equal(1, topic:delete_records(1))
    end)
  end)

  it("never gives back what it took, over reopenings", function()
    math.randomseed(5)
    local path = support.path()
    local store = support.open(path)
    local topic, start = store:topic("t", { retention_ms = 2000, segment_bytes = 300 }), 0
    for _ = 1, 200 do
      local kind = math.random(10)
      support.now = support.now + math.random(200)
      if kind < 6 then topic:append("k", ("v"):rep(math.random(50)))
      elseif kind == 6 then topic:retain()
      elseif kind == 7 then topic:delete_records(math.random(topic:earliest(), topic:latest()))
      elseif kind == 8 then store:maintain()
      else
        store:close()
        store = support.open(path)
        topic = store:topic "t"
      end
      assert(topic:earliest() >= start)
      start = topic:earliest()
      local expected
      for offset in topic:records() do
        assert(not expected or offset == expected)
        expected = offset + 1
      end
      assert(not expected or expected == topic:latest())
    end
  end)
end)

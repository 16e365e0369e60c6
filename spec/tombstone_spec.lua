-- Tombstones: the delete horizon in the bytes of a batch, when they go, the purge floor, and that nothing deleted ever comes back.
local support = require "support"
local disk = require "disk"

local DAY = 86400000

describe("tombstones", function()
  after_each(support.cleanup)

  local function compacted(config)
    config.cleanup_policy = config.cleanup_policy or "compact"
    return support.topic(config)
  end

  local function batches(topic, i) return disk.batches(disk.read(topic:segments()[i or 1].path)) end
  local function floor(topic) return topic:stats().partitions[0].purge_floor end
  local function clean(topic, now) return assert(topic:compact { force = true, now = now }) end

  it("get their horizon from the first cleaning that keeps them, for good", function()
    local topic, t = compacted {}, support.now
    topic:append_batch { { key = "a", value = "1", timestamp = t }, { key = "b", timestamp = t + 1 },
                         { key = "c", value = "1", timestamp = t - 5 } }
    topic:append_batch { { key = "d", value = "1" } }
    topic:roll()
    assert.is_nil(batches(topic)[1].horizon)
    clean(topic, t + 100)
    local all = batches(topic)
    local b = all[1]
    assert.equal(64, b.attributes)
    assert.equal(t + 100 + DAY, b.horizon)
    assert.same({ 0, 2, 3, t + 1 }, { b.base_offset, b.last_offset, b.count, b.max_timestamp })
    assert.same({ t, t + 1, t - 5 }, { b.records[1].timestamp, b.records[2].timestamp, b.records[3].timestamp })
    assert.is_nil(all[2].horizon)                             -- has no tombstone

    topic:alter { delete_retention_ms = 1 }
    topic:append("e", "1")
    topic:roll()
    clean(topic, t + 200)
    assert.equal(t + 100 + DAY, batches(topic)[1].horizon)
    topic:append("f", nil)
    topic:roll()
    clean(topic, t + 300)
    all = batches(topic)
    assert.equal(t + 301, all[#all].horizon)
    assert.equal("a=1 b- c=1 d=1 e=1 f-", support.words(topic:records()))
  end)

  it("are Kafka's bytes after a cleaning", function()
    local topic = compacted {}
    topic:append_batch { { key = "k", value = "v1", timestamp = 1700000000000 }, { key = "", value = "", timestamp = 1700000000001 },
                         { key = "k", timestamp = 1699999999995, headers = { { "h" }, { "", "x" } } } }
    topic:roll()
    local function hex()
      return (disk.read(topic:segments()[1].path):gsub(".", function(c) return string.format("%02x", c:byte()) end))
    end
    clean(topic, 1700000100000)
    assert.equal("00000000000000000000004c0000000002470e42160040000000020000018bd50d4aa00000018bcfe56801ffffffffffffffffffffffffffff" ..
                 "000000021200bd8abf52020000002000c98abf5204026b0104026801000278", hex())
    topic:append_batch { { key = "", value = "x" } }
    topic:roll()
    clean(topic, 1700000100000)
    clean(topic, 1700086500000)
    assert.equal("x", (select(3, topic:records()())))
  end)

  it("become an empty batch when the round ends with them", function()
    local topic = compacted {}
    topic:append_batch { { key = "k", value = "v1", timestamp = 1700000000000 }, { key = "k", timestamp = 1700000000001 } }
    topic:roll()
    clean(topic, 1700000100000)
    assert.equal(1, clean(topic, 1700086500000).tombstones_removed)
    local b = batches(topic)[1]
    assert.same({ 0, 1, 0, 61, 0, -1, 1700000000001 },
                { b.base_offset, b.last_offset, b.count, b.size, b.attributes, b.base_timestamp, b.max_timestamp })
  end)

  it("go when now reaches the horizon, not before", function()
    local topic, t = compacted { delete_retention_ms = 1000 }, support.now
    topic:append("a", "1")
    topic:append("a", nil)
    topic:append("b", "1")
    topic:roll()
    clean(topic, t)
    assert.equal(0, clean(topic, t + 999).tombstones_removed)
    assert.equal("a- b=1", support.words(topic:records()))
    assert.equal(1, clean(topic, t + 1000).tombstones_removed)
    assert.equal("b=1", support.words(topic:records()))
  end)

  for _, retention in ipairs { 0, 1 } do
    it("with delete.retention.ms=" .. retention .. " survive one cleaning and no more", function()
      local topic, t = compacted { delete_retention_ms = retention }, support.now
      topic:append("a", "1")
      topic:append("a", nil)
      topic:append("b", "1")
      topic:roll()
      clean(topic, t)
      assert.equal("a- b=1", support.words(topic:records()))
      clean(topic, t + retention)
      assert.equal("b=1", support.words(topic:records()))
    end)
  end

  it("that a later value replaces go at once", function()
    local topic = compacted {}
    topic:append("a", nil)
    topic:append("a", "2")
    topic:roll()
    assert.equal(0, clean(topic, support.now).tombstones_removed)
    assert.equal("a=2", support.words(topic:records()))
    assert.equal(-1, floor(topic))
  end)

  it("delete older values in the very first pass, across segments", function()
    local topic = compacted {}
    for i = 1, 5 do
      topic:append("a", tostring(i))
      topic:roll()
    end
    clean(topic, support.now)
    topic:append("a", nil)
    topic:roll()
    clean(topic, support.now)
    assert.equal("a-", support.words(topic:records()))
  end)

  it("of an empty value are none", function()
    local topic = compacted { delete_retention_ms = 0 }
    topic:append("a", "")
    topic:roll()
    for _ = 1, 3 do
      clean(topic, support.now)
      assert.equal("a=", support.words(topic:records()))
    end
    assert.is_nil(batches(topic)[1].horizon)
  end)

  it("raise the purge floor, durably, when they go", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact,delete", delete_retention_ms = 0, retention_ms = -1 })
    assert.equal(-1, floor(topic))
    for i = 0, 5 do topic:append("k" .. i, i % 2 == 0 and "v" or nil) end
    topic:roll()
    clean(topic, support.now)
    assert.equal(-1, floor(topic))
    clean(topic, support.now)
    assert.equal(5, floor(topic))
    store:close()
    store = support.open(path)
    topic = store:topic "t"
    assert.equal(5, floor(topic))

    topic:append("x", nil)                                    -- offset 6, goes by retention
    topic:append("y", "1")
    topic:roll()
    topic:append("z", "1")
    topic:delete_records(8)
    assert.equal(5, floor(topic))
    assert(topic:retain().segments > 0)
    assert.equal(6, floor(topic))
    store:close()
    assert.equal(6, floor(support.open(path):topic "t"))
  end)

  it("make a state table that missed them drop the key", function()
    local topic, store = compacted { delete_retention_ms = 0 }
    local heard = {}
    topic:append("a", "1")
    topic:append("b", "1")
    local function on_change(key, new, old) heard[#heard + 1] = key .. ":" .. tostring(new) .. ":" .. tostring(old) end
    local state = store:table("t", { on_change = on_change })
    topic:append("a", nil)
    topic:roll()
    clean(topic, support.now)
    clean(topic, support.now)
    assert.equal("b=1", support.words(topic:records()))
    state:update()
    assert.is_nil(state:get "a")
    assert.same({ "a:1:nil", "b:1:nil", "a:nil:1" }, heard)
  end)

  it("leave the active segment as it is when they go, even if the log starts in it", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact,delete", delete_retention_ms = 1000, retention_ms = -1 })
    topic:append("a", "1")
    topic:append("b", nil)
    topic:roll()
    clean(topic, support.now)
    for i = 1, 3 do topic:append("c", tostring(i)) end
    topic:delete_records(4)
    store:close()
    support.now = support.now + 1000
    topic = support.open(path):topic "t"
    local report = topic:compact()
    assert.same({ 1, 2, 1, 1 }, { report.partitions, report.records_read, report.records_written, report.tombstones_removed })
    assert.equal("c=3", support.words(topic:records()))
    assert.equal(0, topic:compact().partitions)
  end)

  -- Whatever appends, rolls, cleanings, retentions of tombstones and reopenings come in which order: a fold over the log is the map.
  it("never let a deleted key come back", function()
    math.randomseed(11)
    for round = 1, 12 do
      local path, map, keys = support.path(), {}, 1 + math.random(12)
      local store, topic
      local function open()
        store = support.open(path, { options = { ["log.cleaner.dedupe.buffer.size"] = math.random(3) == 1 and 100 or 100000 } })
        topic = store:topic("t", { cleanup_policy = "compact", delete_retention_ms = math.random(0, 300),
                                   segment_bytes = math.random(150, 1500), min_cleanable_dirty_ratio = math.random() })
      end
      local function check(what)
        local seen = {}
        for _, key, value in topic:records() do seen[key] = value end
        for key, value in pairs(map) do assert(seen[key] == value, "round " .. round .. " after " .. what .. ": " .. key) end
        for key in pairs(seen) do assert(map[key] ~= nil, "round " .. round .. " after " .. what .. ": " .. key .. " came back") end
      end
      open()
      for _ = 1, 150 do
        local kind = math.random(20)
        support.now = support.now + math.random(60)
        if kind <= 11 then
          local key, value = "k" .. math.random(keys), math.random(3) > 1 and "v" .. math.random(1000) or nil
          topic:append(key, value)
          map[key] = value
        elseif kind <= 13 then
          local batch = {}
          for i = 1, math.random(5) do
            local key, value = "k" .. math.random(keys), math.random(3) > 1 and "v" .. math.random(1000) or nil
            batch[i] = { key = key, value = value }
            map[key] = value
          end
          topic:append_batch(batch)
        elseif kind <= 15 then topic:roll()
        elseif kind == 16 then topic:compact { force = true } check "compact"
        elseif kind == 17 then topic:compact() check "compact by ratio"
        elseif kind == 18 then store:maintain() check "maintain"
        elseif kind == 19 then store:close() open() check "reopen"
        else
          support.now = support.now + 300
          topic:compact { force = true }
          check "late compact"
        end
      end
      check "all"
      store:close()
    end
  end)
end)

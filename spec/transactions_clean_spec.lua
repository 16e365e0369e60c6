-- Compaction of what transactional and idempotent producers wrote, as Kafka's cleaner does it; spec/kafka/survivors compares the
-- two at large.
local support = require "support"
local disk = require "disk"

local DAY = 86400000
local CONTROL = 32

describe("compaction of a broker's transactions", function()
  local topic, store, path

  local function import(name)
    path = support.path()
    store = support.open(path)
    topic = store:topic("t", { cleanup_policy = "compact", delete_retention_ms = 1000 })
    assert(store:import("t", (support.kafka_directory(name))))
  end

  local function has(b, bit) return math.floor(b.attributes / bit) % 2 == 1 end

  -- The batches of all closed segments: the offset of its first record, with an m when that is a marker, "-offset" of the last one
  -- of an emptied batch, "*" behind one with a horizon.
  local function batches()
    local list = {}
    for _, s in ipairs(topic:segments()) do
      for _, b in ipairs(s.state ~= "active" and disk.batches(disk.read(s.path)) or {}) do
        local name = b.count == 0 and "-" .. b.last_offset or has(b, CONTROL) and "m" .. b.base_offset or tostring(b.records[1].offset)
        list[#list + 1] = name .. (b.horizon and "*" or "")
      end
    end
    return table.concat(list, " ")
  end

  -- Makes something dirty and cleans.
  local function clean(after)
    support.now = support.now + after
    topic:append("tail", "1")
    topic:roll()
    assert.equal(0, topic:compact({ force = true }).corrupt)
  end

  after_each(support.cleanup)

  it("drops aborted data, over segments, and keeps markers, horizons and producers' last batches as long as Kafka", function()
    import "spanning"
    clean(0)
    -- 1 and 3 were aborted (1 a tombstone, which deletes nothing); 3 and 8 are the last of producers that a broker still knows.
    assert.equal("0 2 -3 m4 m5 7* 8 10", batches())
    assert.equal("a=1 b=1 c- d=1 tail=1", support.words(topic:records()))
    assert.equal("a=1 b=1 c- d=1 tail=1", support.words(topic:records { isolation = "uncommitted" }))
    clean(1000)
    assert.equal("0 2 -3 m4 m5 8 11", batches())
    clean(DAY)                                                -- the producers are forgotten
    assert.equal("0 2 m4 m5 8 12", batches())
    clean(10)                                                 -- the first pass that meets no data of the transaction
    assert.equal("0 2 m4* m5 8 13", batches())
    clean(999)
    assert.equal("0 2 m4* m5 8 14", batches())
    clean(1)
    assert.equal("0 2 m5 8 15", batches())
    topic:append("b", "2")                                    -- the committed transaction loses its data as well
    clean(0)
    assert.equal("0 m5 8 16", batches())
    clean(1)
    assert.equal("0 m5* 8 16 18", batches())
    clean(1000)
    assert.equal("0 8 16 19", batches())
    assert.equal("a=1 d=1 b=2 tail=1", support.words(topic:records()))
  end)

  it("keeps the entry of .txnindex as long as the transaction has data", function()
    import "spanning"
    local index = path .. "/t-0/" .. string.format("%020d.txnindex", 0)
    clean(0)
    local bytes = disk.read(index)
    assert.equal(34, #bytes)
    assert.equal(1, bytes:byte(10))                           -- producer 1,
    assert.equal(4, bytes:byte(26))                           -- whose marker is at 4
    clean(DAY)
    assert.is_true(disk.exists(index))
    clean(0)
    assert.is_false(disk.exists(index))
  end)

  it("counts what it drops for the purge floor", function()
    import "spanning"
    clean(0)
    assert.equal(1, topic:stats().partitions[0].purge_floor)  -- the aborted tombstone
    clean(1000)
    assert.equal(7, topic:stats().partitions[0].purge_floor)
  end)

  it("leaves markers to passes that have something to clean", function()
    import "spanning"
    clean(0)
    clean(DAY)
    clean(0)
    assert.equal("0 2 m4* m5 8 12", batches())
    support.now = support.now + 5000
    assert.equal(0, topic:compact({ force = true }).partitions)
    assert.equal("0 2 m4* m5 8 12", batches())
  end)

  it("goes no further than the last stable offset", function()
    import "transactions"
    local before = batches()
    topic:roll()
    topic:append("plain", "4")
    topic:roll()
    assert.equal("0 1 2 3 m4 5 m6 7 m8 9 10 11 m12 13 14", batches())
    assert.truthy(batches():find(before, 1, true))
    assert.equal(1, topic:stats().partitions[0].dirty_ratio)
    assert.equal(1, topic:compact({ force = true }).partitions)
    -- The transaction that begins at 9 is still open. Keys of what follows are not known to the pass.
    assert.equal("2 m4 5 m6 7 m8 9 10 11 m12 13 14", batches())
    assert.equal(0, topic:stats().partitions[0].dirty_ratio)
    assert.equal(9, topic:stats().partitions[0].clean_offset)
    assert.equal(0, topic:compact({ force = true }).partitions)
    assert.equal("plain=1 b=2 a=3", support.words(topic:records()))
    assert.equal("plain=1 b=2 a=3 c=1 plain=2 a=4 plain=3 plain=4", support.words(topic:records { isolation = "uncommitted" }))
  end)

  it("does not take aborted data for the last of a key in a state table", function()
    import "spanning"
    local function values()
      local state, list = store:table "t", {}
      for key, value in state:pairs() do list[#list + 1] = key .. "=" .. value end
      state:close()
      table.sort(list)
      return table.concat(list, " ")
    end
    assert.equal("a=1 b=1 d=1 tail=1", values())
    clean(0)
    assert.equal("a=1 b=1 d=1 tail=1", values())
  end)

  it("survives a new opening, with the producers for a broker beside it", function()
    import "spanning"
    clean(0)
    store:close()
    -- Kafka's own at the end of what it wrote, and one at the end; none from before the cleaning.
    assert.same({ string.format("%020d.snapshot", 10), string.format("%020d.snapshot", 11) }, disk.list(path .. "/t-0", ".snapshot"))
    store = support.open(path)
    topic = store:topic "t"
    assert.equal("0 2 -3 m4 m5 7* 8 10", batches())
    assert.equal("a=1 b=1 c- d=1 tail=1", support.words(topic:records()))
    clean(1000)
    assert.equal("0 2 -3 m4 m5 8 11", batches())
  end)
end)

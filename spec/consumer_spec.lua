-- Consumers: poll, positions, commits, lag, where one begins, and what it is told when it comes too late. In group_spec there are several.
local support = require "support"
local disk = require "disk"
local members = require "members"

local raised, places = support.raised, members.places

describe("a consumer", function()
  local path, store, topic

  before_each(function()
    path = support.path()
    store = support.open(path)
    topic = store:topic("t", { partitions = 2 })
  end)
  after_each(support.cleanup)

  local function fill(from, to) members.fill(topic, from, to) end
  local function consumer(options) return members.consumer(store, options) end

  describe("polls", function()
    it("records with all that belongs to them", function()
      topic:append("k", "v", { partition = 1, timestamp = 12345, headers = { { "a", "b" } } })
      topic:append("gone", nil, { partition = 1 })
      local list = consumer():poll()
      local first = { topic = "t", partition = 1, offset = 0, key = "k", value = "v", timestamp = 12345, headers = { { "a", "b" } } }
      assert.same(first, list[1])
      assert.same({ topic = "t", partition = 1, offset = 1, key = "gone", timestamp = support.now }, list[2])
    end)

    it("each record once, in order in each partition, and an empty list at the end", function()
      fill(1, 10)
      local c = consumer()
      assert.equal("0:0 0:1 0:2 0:3 0:4 1:0 1:1 1:2 1:3 1:4", places(c:poll()))
      assert.same({}, c:poll())
      fill(11, 12)
      assert.equal("0:5 1:5", places(c:poll()))
    end)

    it("waiting, not looking again and again, while a transaction is open", function()
      local dir = support.kafka_directory "transactions"
      store:topic("open", { retention_ms = -1 })
      assert(store:import("open", dir))
      local c = assert(store:consumer { topics = { "open" } })
      while #c:poll() > 0 do end
      local waits, wait_any = 0, c.wait_any
      c.wait_any = function(...)
        waits = waits + 1
        return wait_any(...)
      end
      assert.same({}, c:poll { timeout_ms = 50 })
      assert.is_true(waits <= 2, waits .. " waits")
      c:close()
    end)

    it("at most max records, from the partitions in turn", function()
      fill(1, 8)
      local c = consumer()
      assert.equal("0:0 0:1", places(c:poll { max = 2 }))
      assert.equal("1:0 1:1", places(c:poll { max = 2 }))
      assert.equal("0:2 0:3 1:2", places(c:poll { max = 3 }))
      assert.same({}, c:poll { max = 0 })
    end)

    it("several topics", function()
      store:topic("u", {}):append("k", "v")
      fill(1, 1)
      local list = consumer { topics = { "u", "t" } }:poll()
      assert.same({ "u", "t" }, { list[1].topic, list[2].topic })
    end)

    it("500 records when nothing is said", function()
      for _ = 1, 501 do topic:append("k", "v", { partition = 0 }) end
      local c = consumer()
      assert.same({ 500, 1 }, { #c:poll(), #c:poll() })
    end)

    it("partitions that are added later", function()
      local c = consumer()
      c:poll()
      topic:alter { partitions = 3 }
      topic:append("k", "v", { partition = 2 })
      assert.equal("2:0", places(c:poll()))
    end)

    it("waiting for what others append, in any partition", function()
      local c = consumer()
      c:poll()
      local other = io.popen("sleep 0.05; " .. disk.script(path .. ".lua", [[
        local store = require("sediment").open(arg[1], { background = false })
        store:topic("t"):append("k", "v", { partition = 1 })
      ]]) .. " " .. path)
      assert.equal("1:0", places(c:poll { timeout_ms = 60000 }))
      other:close()
      assert.same({}, c:poll { timeout_ms = 1 })
    end)

    it("committed records alone, or all", function()
      local dir = support.kafka_directory "transactions"
      assert(store:import("tx", dir))
      local function count(isolation)
        local c, n = consumer { topics = { "tx" }, isolation = isolation }, 0
        repeat
          local list = c:poll()
          n = n + #list
        until #list == 0
        return n
      end
      local function expected(isolation)
        local n = 0
        for _ in store:topic("tx"):records { isolation = isolation } do n = n + 1 end
        return n
      end
      assert.equal(expected "committed", count "committed")
      assert.equal(expected "committed", count(nil))
      assert.equal(expected "uncommitted", count "uncommitted")
      assert.not_equal(expected "committed", expected "uncommitted")
    end)

    it("over damage only when asked to, and the rest goes on", function()
      fill(1, 6)
      topic:roll(0)
      support.damaged()
      local file = topic:segments(0)[1].path
      disk.write(file, (disk.read(file):gsub("v4", "v!")))
      topic:append("k", "behind", { partition = 0 })
      local c = consumer()
      local got, said = {}, {}
      for _ = 1, 4 do
        local list, message, code = c:poll()
        for _, r in ipairs(list or {}) do got[#got + 1] = r.partition .. ":" .. r.offset end
        if code then said = { message, code } end
      end
      assert.equal("corrupt", said[2])
      assert.matches("00000000000000000000.log", said[1], 1, true)
      assert.equal("1:0 1:1 1:2", table.concat(got, " "))
      local told = {}
      local skipping = consumer { on_corrupt = function(...) told = { ... } end }
      local list = skipping:poll()
      assert.equal("0:3 1:0 1:1 1:2", places(list))
      assert.same({ "t", 0, 0, 3 }, { told[1], told[2], told[3], told[4] })
      assert.equal("0:3 1:0 1:1 1:2", places(consumer { on_corrupt = "skip" }:poll()))
    end)
  end)

  describe("commits", function()
    it("where it stands, and another one goes on there", function()
      fill(1, 10)
      local c = consumer { group = "g" }
      c:poll()
      assert.is_nil(c:committed("t", 0))
      assert.is_true(c:commit())
      assert.equal(5, (c:committed("t", 0)))
      fill(11, 12)
      c:close()
      assert.equal("0:5 1:5", places(consumer { group = "g" }:poll()))
    end)

    it("nothing by itself", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      c:poll()
      c:close()
      assert.equal(4, #consumer { group = "g" }:poll())
    end)

    it("a record, and so what comes before it in its partition", function()
      fill(1, 6)
      local c = consumer { group = "g" }
      local list = c:poll()
      assert.is_true(c:commit(list[2]))
      assert.same({ 2, nil }, { (c:committed("t", 0)), (c:committed("t", 1)) })
    end)

    it("given offsets, with metadata", function()
      fill(1, 6)
      local c = consumer { group = "g" }
      assert.is_true(c:commit { t = { [0] = 1, [1] = { offset = 2, metadata = "why" } } })
      assert.same({ 1, "" }, { c:committed("t", 0) })
      assert.same({ 2, "why" }, { c:committed("t", 1) })
      c:close()
      assert.equal("0:1 0:2 1:2", places(consumer { group = "g" }:poll()))
    end)

    it("durably when asked to", function()
      fill(1, 2)
      local c = consumer { group = "g" }
      c:poll()
      assert.is_true(c:commit(nil, { sync = true }))
      local p = store:stats().topics.__consumer_offsets.partitions[0]
      assert.same({ 2, 2 }, { p.log_end_offset, p.durable_offset })
      assert.is_true(c:commit(nil, { sync = true }))                   -- nothing has moved
      assert.equal(2, store:stats().topics.__consumer_offsets.partitions[0].log_end_offset)
    end)

    it("survive the store", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      c:poll()
      c:commit()
      store:close()
      store = support.open(path)
      assert.same({}, consumer { group = "g" }:poll())
    end)

    it("are each group's own", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      c:poll()
      c:commit()
      assert.equal(4, #consumer { group = "other" }:poll())
      assert.same({ "g" }, store:groups())
    end)

    it("go with their topic", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      c:poll()
      c:commit()
      store:delete_topic "t"
      local list, message, code = c:poll()
      assert.same({ nil, "unknown_topic" }, { list, code })
      assert.matches("'t'", message)
      topic = store:topic("t", { partitions = 2 })
      fill(1, 2)
      assert.equal("0:0 1:0", places(c:poll()))
      assert.is_nil(c:committed("t", 0))
      assert.same({}, store:groups())
    end)
  end)

  describe("begins", function()
    it("at the log start, the end, or nowhere", function()
      fill(1, 4)
      local late = consumer { auto_offset_reset = "latest" }
      assert.same({}, late:poll())
      assert.equal(2, late:position("t", 0))
      local list, message, code = consumer { auto_offset_reset = "none" }:poll()
      assert.same({ nil, "offset_out_of_range" }, { list, code })
      assert.matches("0 to 2", message, 1, true)
      assert.equal(4, #consumer { auto_offset_reset = "earliest" }:poll())
    end)

    it("by the same rule when retention has overtaken it", function()
      for reset, expected in pairs { earliest = "0:6", latest = "" } do
        local name = "r" .. reset
        local t = store:topic(name, { retention_ms = 1000 })
        for _ = 1, 3 do t:append("k", "v") end
        local c = consumer { topics = { name }, group = "g", auto_offset_reset = reset }
        c:seek(name, 0, 1)
        c:commit()
        for _ = 1, 3 do t:append("k", "v") end
        support.now = support.now + 1001
        assert.equal(1, t:retain().segments)
        t:append("k", "v")
        assert.equal(expected, places(c:poll()), reset)
        assert.equal(7, c:position(name, 0))
      end
    end)

    it("or tells, with the bounds", function()
      local t = store:topic("r", { retention_ms = 1000 })
      for _ = 1, 3 do t:append("k", "v") end
      local c = consumer { topics = { "r" }, group = "g", auto_offset_reset = "none" }
      c:seek("r", 0, 1)
      support.now = support.now + 1001
      t:retain()
      t:append("k", "v")
      local list, message, code = c:poll()
      assert.same({ nil, "offset_out_of_range" }, { list, code })
      assert.matches("offset 1 is not within the log, which has 3 to 4", message, 1, true)
      assert.is_true(c:seek("r", 0, "earliest"))
      assert.equal("0:3", places(c:poll()))
    end)
  end)

  describe("is told of deletions that it missed", function()
    local compacted

    before_each(function()
      compacted = store:topic("c", { cleanup_policy = "compact", delete_retention_ms = 1000, min_cleanable_dirty_ratio = 0 })
    end)

    local function purge()
      compacted:append("tail", "v")
      support.purge(compacted)
    end

    it("when it comes back after they were cleaned away, and never shows the key as living", function()
      compacted:append("a", "1")
      compacted:append("b", "1")
      local c = consumer { topics = { "c" }, group = "g" }
      assert.equal(2, #c:poll())
      c:commit()
      c:close()
      compacted:append("a", nil)
      purge()
      c = consumer { topics = { "c" }, group = "g" }
      for _ = 1, 2 do
        local list, message, code = c:poll()
        assert.same({ nil, "resync" }, { list, code })
        assert.matches("c-0: deletions up to offset 2 were compacted away before they were read from offset 2 on", message, 1, true)
      end
      assert.is_true(c:commit())                                       -- which does not skip it
      assert.equal(2, (c:committed("c", 0)))
      assert.is_true(c:seek("c", 0, "earliest"))
      local state = {}
      for _, r in ipairs(c:poll()) do state[r.key] = r.value end
      assert.same({ b = "1", tail = "v" }, state)
      assert.is_true(c:commit())
      c:close()
      assert.same({}, consumer { topics = { "c" }, group = "g" }:poll())
    end)

    it("while it is open, too", function()
      compacted:append("a", "1")
      local c = consumer { topics = { "c" } }
      c:poll()
      compacted:append("a", nil)
      purge()
      assert.equal("resync", select(3, c:poll()))
    end)

    it("also when the log start has passed what it had not read", function()
      compacted:alter { cleanup_policy = "compact,delete", retention_ms = 1000 }
      compacted:append("a", "1")
      local c = consumer { topics = { "c" }, group = "g" }
      c:poll()
      c:commit()
      compacted:append("a", nil)
      support.now = support.now + 1001
      compacted:retain()
      compacted:append("b", "1")
      assert.equal("resync", select(3, c:poll()))
    end)

    it("not when it read them, nor when it begins", function()
      compacted:append("a", "1")
      compacted:append("a", nil)
      local c = consumer { topics = { "c" }, group = "g" }
      assert.equal(2, #c:poll())
      c:commit()
      purge()
      assert.equal(1, #c:poll())
      assert.equal(1, #consumer { topics = { "c" } }:poll())
      local late = consumer { topics = { "c" }, group = "late", auto_offset_reset = "latest" }
      assert.same({}, late:poll())
    end)

    it("not in a topic that is not compacted", function()
      topic:append("a", nil, { partition = 0 })
      local c = consumer { group = "g" }
      c:seek("t", 0, 0)
      c:commit { t = { [0] = 0 } }
      topic:alter { retention_ms = 1000 }
      support.now = support.now + 1001
      topic:retain()
      assert.same({}, c:poll())
    end)
  end)

  describe("seeks", function()
    it("to an offset, an end, a time", function()
      for i = 0, 9 do topic:append("k", "v", { partition = 0, timestamp = 1000 + i }) end
      local c = consumer()
      assert.is_true(c:seek("t", 0, 7))
      assert.equal("0:7 0:8 0:9", places(c:poll()))
      c:seek("t", 0, "earliest")
      assert.equal(0, c:position("t", 0))
      c:seek("t", 0, "latest")
      assert.equal(10, c:position("t", 0))
      c:seek("t", 0, { time = 1008 })
      assert.equal("0:8 0:9", places(c:poll()))
      c:seek("t", 0, { time = 5000 })
      assert.same({}, c:poll())
    end)

    it("within what it reads", function()
      local c = consumer()
      assert.same({ nil, "unknown_partition" }, { (c:seek("t", 2, 0)), select(3, c:seek("t", 2, 0)) })
      assert.equal("unknown_topic", select(3, c:seek("u", 0, 0)))
      assert.equal("unknown_partition", select(3, c:position("t", -1)))
    end)
  end)

  it("pauses and resumes partitions", function()
    fill(1, 4)
    local c = consumer()
    assert.is_true(c:pause("t", 0))
    assert.equal("1:0 1:1", places(c:poll()))
    assert.same({}, c:poll())
    assert.is_true(c:resume("t", 0))
    assert.equal("0:0 0:1", places(c:poll()))
  end)

  it("knows its lag, from the position, else the commit, else the log start", function()
    fill(1, 10)
    local c = consumer { group = "g" }
    assert.same({ total = 10, topics = { t = { [0] = 5, [1] = 5 } } }, c:lag())
    c:poll { max = 3 }
    assert.same({ total = 7, topics = { t = { [0] = 2, [1] = 5 } } }, c:lag())
    c:commit()
    c:close()
    c = consumer { group = "g" }
    assert.equal(7, c:lag().total)
    c:seek("t", 0, "latest")
    assert.equal(5, c:lag().total)
  end)

  describe("iterates", function()
    it("over what there is, and commits on the way", function()
      fill(1, 10)
      local c, n = consumer { group = "g" }, 0
      for record in c:records { commit_every = 4 } do
        n = n + 1
        assert.equal("v", record.value:sub(1, 1))
        if n == 6 then break end
      end
      assert.equal(4, (c:committed("t", 0) or 0) + (c:committed("t", 1) or 0))
      for _ in c:records { commit_every = 4 } do n = n + 1 end
      assert.equal(10, n)
      assert.equal(10, c:committed("t", 0) + c:committed("t", 1))
    end)

    it("with positions that are those of the record in hand", function()
      fill(1, 10)
      local c = consumer { group = "g" }
      for record in c:records() do
        assert.equal(record.offset + 1, c:position("t", record.partition))
        if record.partition == 0 and record.offset == 2 then
          c:commit()
          break
        end
      end
      assert.equal(3, (c:committed("t", 0)))
      c:close()
      local left = 0
      for _ in consumer { group = "g" }:records() do left = left + 1 end
      assert.equal(10 - 3 - 2, left)
    end)

    it("and waits for more when it follows", function()
      fill(1, 2)
      local c, n = consumer(), 0
      for _ in c:records { follow = true, timeout_ms = 1 } do
        n = n + 1
        if n == 2 then fill(3, 4) end
      end
      assert.equal(4, n)
    end)

    it("and commits before it waits", function()
      fill(1, 3)
      local c = consumer { group = "g" }
      for _ in c:records { follow = true, timeout_ms = 1, commit_every = 100 } do assert.is_nil(c:committed("t", 0)) end
      assert.equal(3, c:committed("t", 0) + c:committed("t", 1))
    end)

    it("and raises what poll answers", function()
      fill(1, 2)
      local c = consumer { auto_offset_reset = "none" }
      local err = raised(function() for _ in c:records() do error "never" end end)
      assert.equal("offset_out_of_range", err.code)
      assert.equal(err.message, tostring(err))
      assert.equal("so: " .. err.message, "so: " .. err)
    end)
  end)

  describe("refuses", function()
    it("what is no option, no topic, no offset", function()
      local function refused(pattern, f, ...) assert.matches("consumer_spec.lua:%d+: " .. pattern, raised(f, ...)) end
      for pattern, options in pairs {
        ["bad argument #1 to 'consumer' %(topics: a list of names expected%)"] = {},
        ["bad argument #1 to 'consumer' %(topics: table expected, got string%)"] = { topics = "t" },
        ["bad argument #1 to 'consumer' %(unknown option 'grup'; there are .*group.*%)"] = { topics = { "t" }, grup = "g" },
        ["bad argument #1 to 'consumer' %(group: a name expected, got ''%)"] = { topics = { "t" }, group = "" },
        ["bad argument #1 to 'consumer' %(auto_offset_reset: "] = { topics = { "t" }, auto_offset_reset = "never" },
        ["bad argument #1 to 'consumer' %(isolation: "] = { topics = { "t" }, isolation = "none" },
        ["bad argument #1 to 'consumer' %(on_corrupt: "] = { topics = { "t" }, on_corrupt = "none" },
      } do
        refused(pattern, function() store:consumer(options) end)
      end
      local c = consumer()
      refused("bad argument #1 to 'poll' %(max: a whole number of 0 or more expected, got %-1%)", function() c:poll { max = -1 } end)
      refused("bad argument #1 to 'poll' %(unknown option 'timeout'; there are max, timeout_ms%)", function() c:poll { timeout = 1 } end)
      refused("bad argument #3 to 'seek' %(an offset, ", function() c:seek("t", 0, -1) end)
      refused("bad argument #1 to 'position' %(topic: string expected, got nil%)", function() c:position() end)
      refused("bad argument #2 to 'position' %(partition: a whole number expected, got 0.5%)", function() c:position("t", 0.5) end)
      refused("commit: this consumer has no group", function() c:commit() end)
      refused("bad argument #1 to 'records' %(commit_every: this consumer has no group%)", function() c:records { commit_every = 1 } end)
      local g = consumer { group = "g" }
      refused("bad argument #1 to 'records' %(commit_every: 1 or more expected, got 0%)", function() g:records { commit_every = 0 } end)
      refused("bad argument #1 to 'commit' %(a record, or ", function() g:commit(5) end)
      refused("bad argument #1 to 'commit' %(t: %[partition%] = offset expected%)", function() g:commit { t = { [0] = -1 } } end)
      refused("bad argument #1 to 'commit' %(metadata: a string of at most 4096 bytes expected%)",
        function() g:commit { t = { [0] = { offset = 1, metadata = ("x"):rep(4097) } } } end)
    end)

    it("a missing topic", function()
      local c, message, code = store:consumer { topics = { "nobody" } }
      assert.same({ nil, "unknown_topic" }, { c, code })
      assert.matches("nobody", message)
    end)

    it("use after close, of itself or of the store", function()
      local c = consumer { group = "g" }
      assert.is_true(c:close())
      assert.is_true(c:close())
      assert.matches("consumer_spec.lua:%d+: use after close: the consumer is closed", raised(function() c:poll() end))
      c = consumer { group = "g" }
      store:close()
      assert.matches("consumer_spec.lua:%d+: use after close: the store is closed", raised(function() c:poll() end))
      assert.is_true(c:close())
    end)

    it("to commit in a store that is only read", function()
      fill(1, 2)
      store:close()
      store = support.open(path, { readonly = true })
      assert.equal(2, #consumer():poll())
      assert.equal("readonly", select(3, store:consumer { topics = { "t" }, group = "g" }))
    end)
  end)

  it("says what it is", function()
    assert.equal("sediment.consumer (g)", tostring(consumer { group = "g" }))
    assert.equal("sediment.consumer (no group)", tostring(consumer()))
  end)
end)

-- Consumers when something goes wrong: in a callback, in memory, with the topic of commits, with the group's file. What was not given is
-- not delivered, what was not written is not committed, and nothing that somebody else put into the store keeps a consumer from working.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"
local members = require "members"
local bytes = require "sediment.bytes"
local offsets = require "sediment.offsets"

local raised = support.raised

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

  describe("has not delivered what a call that raised has taken", function()
    it("when on_corrupt raises", function()
      fill(1, 10)
      topic:roll(1)
      support.damaged()
      local file = topic:segments(1)[1].path
      disk.write(file, (disk.read(file):gsub("v5", "v!")))
      local c = consumer { group = "g", on_corrupt = function() error("stop", 0) end }
      assert.equal("stop", raised(function() c:poll() end))
      assert.equal(0, c:position("t", 0))
      c:commit()
      c:close()
      assert.equal(5, #consumer { group = "g", on_corrupt = "skip" }:poll())
    end)

    it("when a hook raises in the middle, as that of Ctrl-C does", function()
      for _ = 1, 400 do topic:append("k", "v", { partition = 0 }) end
      local c = consumer { group = "g" }
      local delivered, n = 0, 0
      for steps = 50, 6000, 431 do
        local list
        local ok = pcall(function()
          debug.sethook(function()
            debug.sethook()
            error("interrupted", 0)
          end, "", steps)
          list = c:poll { max = 10 }
          debug.sethook()
        end)
        debug.sethook()
        delivered, n = delivered + #(list or {}), n + (ok and 0 or 1)
      end
      assert.truthy(n > 0 or jit)
      assert.equal(delivered, c:position("t", 0))
    end)
  end)

  describe("is told the reason when a commit fails", function()
    it("for its size", function()
      topic:alter { partitions = 100 }
      for p = 0, 99 do topic:append("k", "v", { partition = p }) end
      local c = consumer { group = ("g"):rep(20000) }
      assert.equal(100, #c:poll())
      local done, message, code = c:commit()
      assert.same({ nil, "too_large" }, { done, code })
      assert.matches("max.message.bytes", message)
    end)
  end)

  describe("of a topic that is deleted and made anew", function()
    local function anew(config)
      store:delete_topic "t"
      config = config or {}
      config.partitions = 2
      topic = store:topic("t", config)
    end

    it("is told of it, also between two polls, and commits nothing of the old one for the new one", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      assert.equal(4, #c:poll())
      anew()
      fill(1, 2)
      assert.equal("unknown_topic", select(3, c:commit()))
      local codes, got = {}, 0
      for _ = 1, 4 do
        local list, _, code = c:poll()
        codes[#codes + 1], got = code, got + #(list or {})
      end
      assert.same({ "unknown_topic", "unknown_topic" }, codes)           -- of each partition
      assert.equal(2, got)
    end)

    it("commits again the number that the old one had", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      c:poll()
      c:commit()
      anew()
      fill(1, 4)
      repeat local list = c:poll() until list and #list == 4
      assert.is_true(c:commit())
      c:close()
      assert.same({}, consumer { group = "g" }:poll())
    end)

    it("has no commits that were made before it was polled", function()
      fill(1, 4)
      local c = consumer { group = "g" }
      assert.is_true(c:commit { t = { [0] = 2 } })
      c:close()
      anew()
      fill(1, 4)
      assert.equal(4, #consumer { group = "g" }:poll())
    end)
  end)

  it("commits anew when somebody has deleted the topic of commits", function()
    fill(1, 4)
    local c = consumer { group = "g" }
    c:poll()
    c:commit()
    store:delete_topic "__consumer_offsets"
    assert.is_nil(c:committed("t", 0))
    assert.is_true(c:commit())
    assert.equal(2, (c:committed("t", 0)))
  end)

  describe("of a compacted topic wants a resync", function()
    local function behind(config)
      config.cleanup_policy, config.partitions = config.cleanup_policy or "compact", 1
      local c = store:topic("c", config)
      c:append("a", "1")
      c:append("b", "1")
      local reader = consumer { topics = { "c" }, group = "g" }
      reader:poll()
      reader:commit()
      return c, reader
    end

    it("when the records before it were deleted", function()
      local c, reader = behind { cleanup_policy = "compact,delete", retention_ms = -1 }
      c:append "a"
      c:append("d", "1")
      c:delete_records(3)
      reader:close()
      local list, message, code = consumer { topics = { "c" }, group = "g" }:poll()
      assert.same({ nil, "resync" }, { list, code })
      assert.matches("records from offset 2 on were deleted before they were read; the log begins at 3", message, 1, true)
    end)

    it("when the log ends before it", function()
      local _, reader = behind {}
      assert.is_true(reader:commit { c = { [0] = 9 } })
      reader:close()
      local list, message, code = consumer { topics = { "c" }, group = "g" }:poll()
      assert.same({ nil, "resync" }, { list, code })
      assert.matches("the log ends at offset 2, before the offset 9 that was read", message, 1, true)
    end)
  end)

  it("waits behind an open transaction without looking again and again", function()
    assert(store:import("tx", (support.kafka_directory "transactions")))
    local c = consumer { topics = { "tx" } }
    repeat until #c:poll() == 0
    local before = os.clock()
    assert.same({}, c:poll { timeout_ms = 300 })
    assert.truthy(os.clock() - before < 0.2)                             -- of a processor
  end)

  it("keeps few files open, however many partitions it is behind in", function()
    local many = store:topic("many", { partitions = 100, segment_bytes = 3000 })
    for p = 0, 99 do
      for _ = 1, 3 do many:append_batch({ { key = "k", value = ("v"):rep(2000) }, { key = "k", value = "w" } }, { partition = p }) end
    end
    local function open_files() return #disk.list("/proc/self/fd") end
    local c, before, n = consumer { topics = { "many" } }, #disk.list("/proc/self/fd"), 0
    for _ = 1, 200 do n = n + #c:poll { max = 1 } end
    assert.equal(200, n)
    assert.truthy(open_files() <= before + 100)
  end)

  it("sees partitions that are added while it waits", function()
    local added = io.popen("sleep 0.1; " .. disk.script(path .. ".lua", [[
      local topic = require("sediment").open(arg[1], { background = false }):topic "t"
      topic:alter { partitions = 3 }
      topic:append("k", "v", { partition = 2 })
    ]]) .. " " .. path)
    local c, state = consumer(), assert(store:table "t")
    assert.equal(2, c:poll { timeout_ms = 60000 }[1].partition)
    assert.equal(1, state:wait(60000))
    added:close()
    topic = store:topic "t"
    topic:alter { partitions = 4 }
    topic:append("l", "v", { partition = 3 })
    assert.equal(1, state:wait(60000))
  end)

  it("finds its commits in a topic that somebody has made without compaction", function()
    store:topic("__consumer_offsets", {})
    fill(1, 2)
    local c = consumer { group = "g" }
    c:poll()
    assert.is_true(c:commit())
    assert.equal("compact", store:topic "__consumer_offsets":config()["cleanup.policy"])
  end)

  describe("is not kept from its work by", function()
    local function hostile(key, value)
      local c = consumer { group = "first" }
      fill(1, 2)
      c:poll()
      c:commit()
      c:close()
      assert(store:topic "__consumer_offsets":append(key, value))
      for _, group in ipairs { "first", "other", "g" } do
        local again = consumer { group = group }
        assert(again:poll())
        assert(again:commit())
        again:close()
      end
      assert.same({ "first", "g", "other" }, store:groups())
      assert.equal(0, store:maintain().failed)
      assert(store:metrics())
      assert(store:group "g")
    end

    local GOOD = offsets.value { offset = 1, timestamp = 1 }

    it("a commit with a vast number of fields", function()
      hostile(offsets.key("g2", "t", 0), GOOD:sub(1, -2) .. "\255\255\255\255\127")
    end)
    it("a group with a vast number of members", function()
      local none = bytes.i16(-1)
      local state = bytes.i16(3) .. bytes.text "consumer" .. bytes.i32(1) .. none .. none .. bytes.i64(0) .. "\127\255\255\255"
      hostile(offsets.group_key "g2", state)
    end)
    for _, name in ipairs { "bad name", "", "../x", ("n"):rep(300), "a\0b" } do
      it(("a commit for the topic %q"):format(name), function() hostile(offsets.key("g2", name, 0), GOOD) end)
    end
    it("records that are none of Kafka's", function() hostile("nonsense", "nonsense") end)

    it("a group's file that says senseless things", function()
      local a = consumer { group = "g" }
      local core = require "sediment.core"
      local roster = assert(core.roster(store, "g"))
      local vast = "topic t 3:99999999999999999999"
      for _, text in ipairs { "member 5000 x t", "member 1e999 x t", "topic", "topic t x:y -:", "member", vast } do
        roster:lock()
        roster:write("group 1 g\n" .. text .. "\n")
        roster:unlock()
        assert(a:poll(), text)
        assert.same({ t = { 0, 1 } }, a:assignment())
        assert.equal(1, store:group "g".members)
      end
      roster:close()
    end)

    it("something else in place of the group's file", function()
      fill(1, 2)
      local a = consumer { group = "g" }
      a:poll()
      local file = path .. "/" .. disk.list(path, "sediment.group-")[1]
      disk.run("rm '" .. file .. "' && mkdir '" .. file .. "'")
      assert.equal("io", select(3, a:commit()))
      assert.equal("io", select(3, a:poll()))
      disk.run("rmdir '" .. file .. "'")
      assert(a:poll())
      assert.is_true(a:commit())
      disk.run("rm '" .. file .. "'")
      local b = consumer { group = "g" }
      assert.same({ { 1 }, { 0 } }, { a:assignment().t, b:assignment().t })   -- both find the new one
    end)
  end)

  it("is counted in its group though the group's file is damaged", function()
    fill(1, 2)
    local a = consumer { group = "g" }
    a:poll()
    a:commit()
    disk.write(path .. "/" .. disk.list(path, "sediment.group-")[1], "")
    assert.equal(1, store:group "g".members)
    assert.equal("busy", select(3, store:delete_group "g"))
  end)

  it("that leaves nothing behind is forgotten", function()
    for i = 1, 5 do consumer { group = "g" .. i }:close() end
    support.now = support.now + 40 * 24 * 3600 * 1000
    store:maintain()
    local left = 0
    local commits = store:topic "__consumer_offsets"
    for _, _, value in (commits and commits:records() or function() end) do left = left + (value and 1 or -1) end
    assert.equal(0, left)
  end)

  it("is not known to stores that are only read", function()
    fill(1, 2)
    local a = consumer { group = "g" }
    a:poll()
    a:commit()
    local reading = assert(sediment.open(path, { readonly = true }))
    assert.same({ offsets = { t = { [0] = { offset = 1, metadata = "", timestamp = support.now },
                                    [1] = { offset = 1, metadata = "", timestamp = support.now } } } }, reading:group "g")
    reading:close()
  end)
end)

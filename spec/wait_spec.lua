-- Waiting for records: wait() and records{follow=true}, for what this process and others append.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

local raised, now = support.raised, support.now

-- What other processes run: `arg[1]` is the store. They tell that they have come somewhere by a record in the topic "said".
local COMMON = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic, said = assert(store:topic "t"), assert(store:topic "said")
]]

describe("waiting", function()
  local path, store, topic, said

  before_each(function()
    path = support.path()
    store = support.open(path)
    topic, said = store:topic("t", {}), store:topic("said", {})
  end)
  after_each(support.cleanup)

  local function start(text) return support.start(path, COMMON .. text) end

  local function fill(n)
    for i = 1, n do topic:append("k", "v" .. i) end
  end

  describe("for an offset", function()
    it("tells the log end when it is there, and nothing when it does not come in time", function()
      assert.same({}, { topic:wait(0, 0) })
      fill(2)
      assert.same({ 2 }, { topic:wait(0) })
      assert.same({ 2 }, { topic:wait(1, 0) })
      assert.same({}, { topic:wait(2, 5) })
      assert.same({ 2 }, { topic:wait(-1, 5) })
    end)

    it("ends when another process appends", function()
      local p = start [[
        for i = 0, 99 do
          assert(topic:wait(i, 30000) == i + 1)
          assert(said:append("heard", tostring(i)) == i)
        end]]
      for i = 0, 99 do
        assert.equal(i, topic:append("k", "v"))
        assert.equal(i + 1, said:wait(i, 30000))
      end
      assert.equal("status 0", p:read "*l")
    end)

    it("is for one partition", function()
      topic:alter { partitions = 3 }
      topic:append("k", "v", { partition = 2 })
      assert.is_nil(topic:wait(0, 5))
      assert.equal(1, topic:wait(0, 5, 2))
      assert.equal("unknown_partition", select(3, topic:wait(0, 5, 3)))
    end)

    it("ends with a reason when the topic is deleted", function()
      start [[
        assert(topic:wait(0, 30000))
        assert(store:delete_topic "t")]]
      fill(1)
      local result, message, code = topic:wait(1, 30000)
      assert.is_nil(result)
      assert.equal("unknown_topic", code)
      assert.matches("'t' was deleted", message)
    end)

    it("does not hold up who appends when it is killed", function()
      local p, pid = start [[
        said:append("waiting")
        topic:wait(0)]]
      assert(said:wait(0, 30000))
      disk.run("kill -KILL " .. pid)
      assert.matches("status 137", p:read "*a")
      fill(10)
      assert.equal(10, topic:wait(9))
    end)

    it("goes by the files where nobody has the store open, and by its page where somebody has", function()
      fill(1)
      local partition = assert(sediment.open_partition(path .. "/t-0"))
      assert.equal(1, partition:wait(0))
      assert.is_nil(partition:wait(1, 5))
      fill(1)
      assert.equal(2, partition:wait(1, 30000))
      store:close()
      assert.is_nil(partition:wait(2, 5))
      assert.equal(2, partition:wait(1))
      partition:close()
      assert.matches("use after close", raised(function() partition:wait(0) end))
    end)

    it("refuses what is no offset or no time", function()
      assert.matches("offset: a whole number", raised(function() topic:wait() end))
      assert.matches("timeout_ms: 0 or more expected, got %-1", raised(function() topic:wait(0, -1) end))
      assert.matches("timeout_ms: a whole number", raised(function() topic:wait(0, "soon") end))
    end)
  end)

  describe("in an iteration", function()
    local function values(options)
      local found = {}
      for _, _, value in topic:records(options) do found[#found + 1] = value end
      return table.concat(found, " ")
    end

    it("goes on with what is appended meanwhile, until nothing comes in time", function()
      fill(2)
      local found = {}
      for offset, _, value in topic:records { follow = true, timeout_ms = 5 } do
        found[#found + 1] = value
        if offset == 1 then
          fill(1)
          topic:roll()
          topic:append_batch { { key = "k", value = "v2" }, { key = "k", value = "v3" } }
        end
      end
      assert.equal("v1 v2 v1 v2 v3", table.concat(found, " "))
    end)

    it("may be asked again when it does not wait, up to its end", function()
      fill(1)
      local iterator = topic:records { follow = true, timeout_ms = 0, to = 3 }
      assert.same({ 0, nil }, { iterator(), iterator() })
      fill(1)
      topic:roll()
      assert.same({ 1, nil }, { iterator(), iterator() })
      fill(2)
      assert.same({ 2, nil, nil }, { iterator(), iterator(), iterator() })
    end)

    it("ends at `to`", function()
      fill(3)
      assert.equal("v1 v2", values { follow = true, to = 2 })
      assert.equal("v1 v2 v3", values { follow = true, to = 3 })
      assert.equal("", values { follow = true, from = 2, to = 1 })
    end)

    it("leaves out nothing of a batch that has grown since it began", function()
      fill(5)
      local later = topic:records { follow = true, timeout_ms = 0 }
      local today = topic:records()
      fill(5)
      topic:flush()
      local found = {}
      for offset in later do found[#found + 1] = offset end
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, found)
      found = {}
      for offset in today do found[#found + 1] = offset end
      assert.same({ 0, 1, 2, 3, 4 }, found)
    end)

    it("sees what other processes append, as it comes", function()
      start [[
        for i = 1, 200 do
          assert(topic:append("k", "v" .. i))
          if i % 50 == 0 then topic:roll() end
          if i % 10 == 0 then assert(said:wait(i / 10 - 1, 30000)) end
        end]]
      local count = 0
      for offset, _, value in topic:records { follow = true, timeout_ms = 30000, to = 200 } do
        assert.equal(count, offset)
        count = count + 1
        assert.equal("v" .. count, value)
        if count % 10 == 0 then said:append("heard") end
      end
      assert.equal(200, count)
    end)

    it("is told when the records that come next have been deleted", function()
      topic:alter { file_delete_delay_ms = 0 }
      local iterator = topic:records { follow = true, timeout_ms = 5 }
      fill(1)
      assert.equal(0, (iterator()))
      for _ = 1, 3 do
        fill(1)
        topic:roll()
      end
      assert(topic:delete_records(4))
      store:maintain { now = now + 10 }
      local failure = raised(function()
        for _ = 1, 3 do iterator() end
      end)
      assert.equal("offset_out_of_range", failure.code)
    end)

    it("ends at the first record of a transaction that is open, however long the log is", function()
      local partition = assert(sediment.open_partition(support.kafka_directory "transactions"))
      local plain, followed = 0, 0
      for _ in partition:records() do plain = plain + 1 end
      for _ in partition:records { follow = true, timeout_ms = 5 } do followed = followed + 1 end
      assert(plain > 0)
      assert.equal(plain, followed)
      partition:close()
    end)

    it("ends with an error when what it reads is closed", function()
      local iterator = topic:records { follow = true }
      store:close()
      assert.matches("use after close", raised(iterator))
    end)

    it("takes a time only where it follows", function()
      assert.matches("timeout_ms: only with follow = true", raised(function() topic:records { timeout_ms = 5 } end))
      assert.matches("follow: boolean expected", raised(function() topic:records { follow = 1 } end))
    end)
  end)

  describe("for any of several partitions", function()
    local core = require "sediment.core"
    local other

    before_each(function()
      topic:alter { partitions = 3 }
      other = store:topic("other", {})
    end)

    it("tells whether one has a record at its offset", function()
      local wanted = { topic, 0, 0, topic, 2, 0, other, 0, 1 }
      assert.is_false(core.wait_any(wanted, 0))
      assert.is_false(core.wait_any(wanted, 5))
      other:append("k", "v")
      assert.is_false(core.wait_any(wanted, 0))
      topic:append("k", "v", { partition = 1 })
      assert.is_false(core.wait_any(wanted, 0))
      topic:append("k", "v", { partition = 2 })
      assert.is_true(core.wait_any(wanted))
      wanted[6] = 1
      assert.is_false(core.wait_any(wanted, 0))
      other:append("k", "v")
      assert.is_true(core.wait_any(wanted))
      assert.is_false(core.wait_any({}, 0))
    end)

    it("ends when another process appends to any of them", function()
      local p = start [[
        for i = 0, 29 do
          assert(said:wait(i, 30000))
          assert(topic:append("k", "v", { partition = i % 3 }))
        end]]
      local wanted = { topic, 0, 0, topic, 1, 0, topic, 2, 0 }
      for i = 0, 29 do
        said:append("go on")
        assert.is_true(core.wait_any(wanted, 30000))
        wanted[3 * (i % 3) + 3] = wanted[3 * (i % 3) + 3] + 1
      end
      assert.is_false(core.wait_any(wanted, 0))
      assert.equal("status 0", p:read "*l")
    end)

    it("ends with a reason", function()
      assert.equal("unknown_partition", select(3, core.wait_any({ other, 0, 0, topic, 3, 0 }, 0)))
      start 'assert(topic:wait(0, 30000)) assert(store:delete_topic "t")'
      topic:append("k", "v", { partition = 0 })
      local result, message, code = core.wait_any({ other, 0, 0, topic, 0, 1 }, 30000)
      assert.is_nil(result)
      assert.equal("unknown_topic", code)
      assert.matches("'t' was deleted", message)
      store:close()
      assert.matches("use after close", raised(core.wait_any, { other, 0, 0 }, 0))
    end)
  end)

  it("for a flush is for writers", function()
    local core = require "sediment.core"
    local ticket = assert(core.flush_begin(topic, 0))
    store:close()
    local readonly = support.open(path, { readonly = true }):topic "t"
    assert.equal("readonly", select(3, core.flush_begin(readonly, 0)))
    assert.equal("readonly", select(3, core.flush_poll(readonly, 0, ticket)))
  end)

  -- lua's handler of SIGINT sets a hook that raises an error; a wait in C must let it run.
  for name, text in pairs {
    ["wait()"] = "topic:wait(0)", ["an iteration"] = "for _ in topic:records { follow = true } do end",
    ["a wait for several"] = "require('sediment.core').wait_any { topic, 0, 0, said, 0, 1 }",
  } do
    it("by " .. name .. " ends with Ctrl-C", function()
      local p, pid = start("said:append('waiting')\n" .. text)
      assert(said:wait(0, 30000))
      disk.run("kill -INT " .. pid)
      local output = p:read "*a"
      assert.matches("interrupted!", output)
      assert.matches("status 1", output)
    end)
  end
end)

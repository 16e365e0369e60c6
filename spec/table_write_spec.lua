-- Writing through a state table, and waiting for what others write.
local core = require "sediment.core"
local support = require "support"
local disk = require "disk"
local of = require "state"

local raised, contents, listener, put = support.raised, of.contents, of.listener, of.put

describe("a state table", function()
  local path, topic, store

  before_each(function()
    path = support.path()
    store = support.open(path)
    topic = store:topic("t", { cleanup_policy = "compact" })
  end)
  after_each(support.cleanup)

  describe("that is written through", function()
    it("has what was put, and the log too", function()
      local state = store:table "t"
      assert.same({ 0, 0 }, { state:put("a", "1") })
      assert.equal("1", state:get "a")
      assert.same({ 1, 0 }, { state:put("a", 2.5) })
      assert.equal("2.5", state:get "a")
      assert.same({ 2, 0 }, { state:put(24, "x", { headers = { { "h", "v" } }, timestamp = 5 }) })
      assert.same({ 3, 0 }, { state:delete "a" })
      assert.equal("24=x", contents(state))
      assert.equal("a=1 a=2.5 24=x a-", support.words(topic:records()))
      assert.equal(5, support.collect(topic:records())[3].timestamp)
      assert.equal(4, state:offset())
      assert.equal(0, state:update())
    end)

    it("applies what others wrote before first", function()
      local options, heard = listener()
      local state = store:table("t", options)
      put(topic, "a=1 b=1")
      state:put("a", "2")
      assert.equal("a:nil>1 b:nil>1 a:1>2", heard())
      state:delete "b"
      assert.equal("b:1>nil", heard())
    end)

    it("decodes and indexes what was put", function()
      local state = store:table("t", {
        decode = function(value) return tonumber(value) end, index = { sign = function(value) return value < 0 end },
      })
      state:put("a", -5)
      assert.equal(-5, state:get "a")
      assert.equal(1, state:count("sign", true))
    end)

    it("reads on in the partition that it wrote to", function()
      topic:alter { partitions = 3 }
      local state = store:table "t"
      topic:append("x", "1", { partition = 0 })
      assert.same({ 0, 2 }, { state:put("a", "1", { partition = 2 }) })
      assert.equal("1", state:get "a")
      assert.is_nil(state:get "x")
      state:update()
      assert.equal("1", state:get "x")
      topic:alter { partitions = 4 }
      assert.same({ 0, 3 }, { state:put("b", "1", { partition = 3 }) })
      assert.equal("1", state:get "b")
    end)

    it("answers as append does when nothing was appended", function()
      local state = store:table "t"
      assert.equal("unknown_partition", select(3, state:put("a", "1", { partition = 7 })))
      assert.equal("too_large", select(3, state:put("a", ("x"):rep(2000000))))
      assert.equal(0, topic:latest())
      local readonly = support.open(path, { readonly = true }):table "t"
      assert.equal("readonly", select(3, readonly:put("a", "1")))
      store:delete_topic "t"
      assert.equal("unknown_topic", select(3, state:put("a", "1")))
    end)

    it("is busy inside a callback, and appends nothing there", function()
      local state, answers
      state = store:table("t", { on_change = function()
        answers = { select(3, state:put("b", "1")), select(3, state:delete "b"), select(3, state:wait(0)) }
      end })
      state:put("a", "1")
      assert.same({ "busy", "busy", "busy" }, answers)
      assert.equal(1, topic:latest())
    end)

    it("lets through what a callback raises, and has the record in the log", function()
      local state = store:table("t", { decode = function(value)
        if value == "bad" then error("no value", 0) end
        return value
      end })
      assert.equal("no value", raised(state.put, state, "a", "bad"))
      assert.equal("a=bad", support.words(topic:records()))
      assert.is_nil(state:get "a")
    end)

    it("tells which record is in the log when it cannot read on to it", function()
      local state = store:table "t"
      put(topic, "a=1 b=1")
      topic:roll()
      put(topic, "c=1")
      local name = path .. "/t-0/" .. disk.log(0)
      local bytes = disk.read(name)
      support.damaged()
      disk.write(name, bytes:sub(1, 70) .. "!" .. bytes:sub(72))
      local offset, message, code = state:put("d", "1")
      assert.is_nil(offset)
      assert.equal("corrupt", code)
      assert.matches("^offset 3 was appended, but the table could not read on to it: ", message)
    end)

    it("tells of a transaction that is open, behind which nobody reads", function()
      local dir = support.kafka_directory "transactions"
      local imported = store:topic("open", { cleanup_policy = "compact" })
      assert(store:import("open", dir))
      local state, log_end = store:table "open", imported:latest()
      for i, result in ipairs { { state:put("x", "1") }, { state:delete "x" } } do
        local why = "offset %d was appended, but the table could not read on to it: a transaction that is open begins at offset 9"
        assert.same({ nil, why:format(log_end + i - 1), "busy" }, result)
      end
      assert.is_nil(state:get "x")
      assert.same({ log_end + 2, 9 }, { imported:latest(), state:offset() })
      assert.equal(0, state:update())
    end)

    it("refuses what is no key and no value", function()
      local state = store:table "t"
      for expected, f in pairs {
        ["bad argument #2 to 'put' %(value: string or finite number expected, got nil; delete takes a key out%)"] =
          function() state:put("a") end,
        ["bad argument #1 to 'put' %(key: string or whole number expected, got nil%)"] = function() state:put(nil, "1") end,
        ["bad argument #1 to 'delete' %(key: string or whole number expected, got 0.5%)"] = function() state:delete(0.5) end,
        ["bad argument to 'put' %(value: string or finite number expected, got table%)"] = function() state:put("a", {}) end,
        ["bad argument to 'put' %(unknown option 'x'.*%)"] = function() state:put("a", "1", { x = 1 }) end,
        ["bad argument to 'delete' %(sync: boolean expected, got number%)"] = function() state:delete("a", { sync = 1 }) end,
      } do
        assert.matches("^%S*table_write_spec.lua:%d+: " .. expected .. "$", raised(f))
      end
      assert.equal(0, topic:latest())
      state:close()
      assert.matches("use after close", raised(function() state:put("a", "1") end))
    end)

    it("sees, by update and wait, what other processes put", function()
      topic:alter { partitions = 2 }
      local state = store:table "t"
      local command = disk.script(path .. "/../other.lua", [[
        local sediment = require "sediment"
        local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
        local state = assert(store:table "t")
        for i = 1, 20 do
          while (tonumber(state:get "ours") or 0) < i do assert(state:wait(30000)) end
          assert(state:put("theirs", i, { partition = i % 2 }))
        end
        assert(state:get "ours" == "20")
        io.write "done"]])
      local other = assert(io.popen(("%s '%s' 2>&1"):format(command, path)))
      for i = 1, 20 do
        assert(state:put("ours", i, { partition = 0 }))
        while tonumber(state:get "theirs") ~= i do assert(state:wait(30000) ~= nil) end
      end
      assert.equal("done", other:read "*a")
      other:close()
    end)
  end)

  describe("that waits", function()
    it("reads what is there at once, and answers 0 when nothing comes in time", function()
      topic:alter { partitions = 2 }
      local state = store:table "t"
      assert.equal(0, state:wait(0))
      assert.equal(0, state:wait(5))
      topic:append("a", "1", { partition = 1 })
      assert.equal(1, state:wait(0))
      assert.equal("1", state:get "a")
      topic:append("a", "2", { partition = 1 })
      topic:append("b", "2", { partition = 0 })
      assert.equal(2, state:wait())
      assert.equal(0, state:wait(0))
    end)

    it("does not spin at the end of a transaction that is open", function()
      local directory = support.kafka_directory "transactions"
      assert(store:import("open", directory))
      local state = assert(store:table "open")
      assert.is_true(state:offset() < store:topic("open"):latest())
      local wait_any, answers = core.wait_any, {}
      finally(function() core.wait_any = wait_any end)
      core.wait_any = function(...)
        answers[#answers + 1] = wait_any(...)
        return answers[#answers]
      end
      assert.same({ 0, 0 }, { state:wait(1), state:wait(1) })
      assert.same({ false, false }, answers)
    end)

    it("is told that its topic was deleted, and that its store was closed", function()
      local state = store:table "t"
      store:delete_topic "t"
      assert.equal("unknown_topic", select(3, state:wait(0)))
      store:close()
      assert.matches("use after close", raised(function() state:wait(0) end))
    end)

    it("checks its argument", function()
      local state = store:table "t"
      assert.matches("table_write_spec.lua:%d+: bad argument #1 to 'wait' %(timeout_ms: 0 or more expected, got %-1%)",
                     raised(function() state:wait(-1) end))
      assert.matches("timeout_ms: a whole number", raised(function() state:wait "soon" end))
    end)
  end)
end)

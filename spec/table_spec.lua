-- State tables: what they hold, what on_change hears, and that going on gives what starting anew would.
local support = require "support"
local state_spec = require "state"

local raised = support.raised

local contents, listener, put = state_spec.contents, state_spec.listener, state_spec.put

describe("a state table", function()
  local topic, store

  before_each(function()
    topic, store = support.topic { cleanup_policy = "compact", segment_bytes = 1048576, delete_retention_ms = 0 }
  end)
  after_each(support.cleanup)

  it("has the last value of every key when it opens", function()
    put(topic, "a=1 b=1 c=1 a=2 b- d=1 d- d=2")
    local state = store:table "t"
    assert.equal("a=2 c=1 d=2", contents(state))
    assert.equal(3, state:count())
    assert.equal("2", state:get "a")
    assert.is_nil(state:get "b")
    assert.equal(8, state:offset())
    assert.equal(0, state:update())
  end)

  it("follows", function()
    local options, heard = listener()
    put(topic, "a=1 b=1")
    local state = store:table("t", options)
    assert.equal("a:nil>1 b:nil>1", heard())
    put(topic, "a=2 c=1 c=2 b- b- c=2")
    assert.equal(6, state:update())
    assert.equal("a:1>2 c:nil>1 c:1>2 b:1>nil", heard())
    assert.equal("a=2 c=2", contents(state))
    assert.equal(2, state:count())
    assert.equal(8, state:offset())
    assert.equal(0, state:update())
    assert.equal("", heard())
  end)

  it("begins empty", function()
    local state = store:table "t"
    assert.equal(0, state:count())
    assert.equal(0, state:offset())
    put(topic, "a=1")
    assert.equal(1, state:update())
    assert.equal("1", state:get "a")
  end)

  it("takes numbers as keys as append does", function()
    topic:append(24, 1)
    topic:append(2 ^ 53, 2)
    local state = store:table "t"
    assert.same({ "1", "1", "1" }, { state:get(24), state:get(24.0), state:get "24" })
    assert.equal("2", state:get(2 ^ 53))
    assert.is_nil(state:get(25))
    for shown, bad in pairs { ["2.5"] = 2.5, inf = 1 / 0, ["1.152921504606847e%+18, beyond 2^53"] = 2 ^ 60 } do
      assert.matches("table_spec.lua:%d+: bad argument #1 to 'get' %(key: string or whole number expected, got " .. shown .. "%)",
                     raised(function() state:get(bad) end))
    end
    assert.matches("key: string or whole number expected, got nil", raised(function() state:get() end))
    assert.matches("key: string or whole number expected, got table", raised(function() state:get {} end))
  end)

  it("may be given to pairs where Lua lets it", function()
    put(topic, "a=1 b=2 a-")
    local state, seen = store:table "t", {}
    assert.equal("function", type(getmetatable(state).__pairs))
    for key, value in getmetatable(state).__pairs(state) do seen[key] = value end
    assert.same({ b = "2" }, seen)
    if _VERSION == "Lua 5.1" then return end
    for key, value in pairs(state) do seen[key] = value .. "!" end
    assert.same({ b = "2!" }, seen)
    state:close()
    assert.matches("table_spec.lua:%d+: use after close", raised(function() local f = pairs(state) return f end))
  end)

  it("ignores records without a key", function()
    local plain = store:topic("plain", {})
    plain:append(nil, "x")
    plain:append("a", "1")
    local state = store:table "plain"
    plain:append(nil, "y")
    assert.equal(0, state:update())
    assert.equal("a=1", contents(state))
    assert.equal(3, state:offset())
  end)

  it("decodes", function()
    local options, heard = listener { decode = function(value, key) return key ~= "gone" and tonumber(value) or nil end }
    put(topic, "a=1 gone=1")
    local state = store:table("t", options)
    put(topic, "a=2 gone=2 b=3 b-")
    assert.equal(4, state:update())
    assert.equal(2, state:get "a")
    assert.equal("a:nil>1 a:1>2 b:nil>3 b:3>nil", heard())
    assert.equal(1, state:count())
  end)

  it("is in order after decode raised, and tries the record again", function()
    local bad = true
    local state = store:table("t", { decode = function(value)
      if bad and value == "x" then error("no number", 0) end
      return value
    end })
    put(topic, "a=1 b=x c=1")
    assert.equal("no number", raised(state.update, state))
    assert.equal("a=1", contents(state))
    assert.equal(1, state:offset())
    bad = false
    assert.equal(2, state:update())
    assert.equal("a=1 b=x c=1", contents(state))
  end)

  it("is in order after on_change raised, and goes on behind the record", function()
    local bad = false
    local state = store:table("t", { on_change = function(key) if bad and key == "b" then error({ key }) end end })
    put(topic, "a=1 b=1 c=1")
    bad = true
    assert.same({ "b" }, raised(state.update, state))
    assert.equal("a=1 b=1", contents(state))
    assert.equal(2, state:count())
    assert.equal(2, state:offset())
    assert.equal(1, state:update())
    assert.equal("a=1 b=1 c=1", contents(state))
  end)

  describe("that is being updated", function()
    local function busy(state)
      local changes, message, code = state:update()
      assert.is_nil(changes)
      assert.matches("the table is just being updated", message)
      assert.equal("busy", code)
    end

    -- A table whose `callback` calls `hook` once it is set.
    local function hooked(callback)
      local hook
      local state = store:table("t", { [callback] = function(first)
        if hook then hook(first) end
        return first
      end })
      return state, function(f) hook = f end
    end

    for _, callback in ipairs { "decode", "on_change" } do
      it("refuses to be updated by " .. callback, function()
        local state, set_hook = hooked(callback)
        put(topic, "a=1 b=1")
        set_hook(function()
          set_hook(nil)
          put(topic, "a- b=2")
          busy(state)
        end)
        assert(state:update())
        assert(state:update())
        assert.equal("b=2", contents(state))
        assert.equal(4, state:offset())
      end)

      it("refuses to be updated by another coroutine while " .. callback .. " yields", function()
        local state, set_hook = hooked(callback)
        set_hook(coroutine.yield)
        put(topic, "a=1")
        local co = coroutine.create(function() return state:update() end)
        assert(coroutine.resume(co))
        put(topic, "a-")
        busy(state)
        set_hook(nil)
        assert.same({ true, 1 }, { coroutine.resume(co) })
        assert.equal(1, state:update())
        assert.equal("", contents(state))
      end)

      it("is free again when " .. callback .. " raised", function()
        local state, set_hook = hooked(callback)
        set_hook(function() error("bad", 0) end)
        put(topic, "a=1")
        assert.equal("bad", raised(state.update, state))
        set_hook(nil)
        assert(state:update())
        assert.equal("a=1", contents(state))
      end)

      it("is free again when the coroutine that it was updated in is collected, " .. callback .. " not done", function()
        local state, set_hook = hooked(callback)
        set_hook(coroutine.yield)
        put(topic, "a=1")
        coroutine.wrap(function() state:update() end)()
        collectgarbage()
        collectgarbage()
        set_hook(nil)
        assert(state:update())
        assert.equal("a=1", contents(state))
      end)
    end

    it("refuses while it starts over", function()
      local both = store:topic("both", { cleanup_policy = "compact,delete" })
      local hook
      put(both, "a=1 b=1")
      local state = store:table("both", { decode = function(value)
        if hook then hook() end
        return value
      end })
      put(both, "a=2 b=2")
      assert.equal(1, both:delete_records(1))
      function hook()
        hook = nil
        put(both, "a- b-")
        busy(state)
      end
      assert(state:update())
      assert(state:update())
      assert.equal("", contents(state))
    end)
  end)

  describe("that is closed by", function()
    local both, state, heard, ready, closed

    local function callbacks(closing)
      local function close(at)
        assert(not closed, "called after close")
        if ready and closing == at then closed = state:close() end
      end
      return {
        decode = function(value) close "decode" return value end,
        on_change = function(key) heard[#heard + 1] = key close "on_change" end,
      }
    end

    -- What on_change hears in the update that closes the table.
    local function last_heard()
      heard, ready = {}, true
      assert(state:update())
      assert.matches("use after close", raised(state.get, state, "a"))
      return table.concat(heard, " ")
    end

    before_each(function()
      both, heard, ready, closed = store:topic("both", { cleanup_policy = "compact,delete" }), {}, false, false
      put(both, "a=1 b=1 c=1")
    end)

    for closing, hears in pairs { decode = "", on_change = "a" } do
      it(closing .. " applies no more of what it reads", function()
        state = store:table("both", callbacks(closing))
        put(both, "a=2 b=2")
        assert.equal(hears, last_heard())
      end)

      it(closing .. " applies no more when it starts over", function()
        state = store:table("both", callbacks(closing))
        put(both, "a=2 b=2")
        both:delete_records(3)
        assert.equal(hears, last_heard())
      end)
    end

    it("on_change sweeps no more", function()
      state = store:table("both", callbacks "on_change")
      both:delete_records(3)
      assert.equal(1, #last_heard())
    end)

    it("on_change reads no other partition", function()
      local many = store:topic("many", { partitions = 3 })
      state = store:table("many", callbacks "on_change")
      for p = 0, 2 do many:append("p" .. p, "1", { partition = p }) end
      assert.equal("p0", last_heard())
    end)
  end)

  it("yields in its callbacks", function()
    put(topic, "a=1 b=1")
    local co = coroutine.wrap(function()
      local state = store:table("t", { on_change = function(key) coroutine.yield(key) end })
      return state:count()
    end)
    assert.same({ "a", "b", 2 }, { co(), co(), co() })
  end)

  it("raises use after close", function()
    local state = store:table "t"
    assert.is_true(state:close())
    assert.is_true(state:close())
    assert.equal("sediment.table (closed)", tostring(state))
    for _, method in ipairs { "get", "update", "pairs", "count", "offset" } do
      local err = raised(function() state[method](state, "a") end)
      assert.matches("table_spec%.lua:%d+: use after close", err)
    end
  end)

  it("raises use after close when its store was closed", function()
    put(topic, "a=1")
    local state = store:table "t"
    store:close()
    for _, method in ipairs { "get", "update", "pairs", "count", "offset" } do
      assert.matches("table_spec%.lua:%d+: use after close: the store is closed", raised(function() state[method](state, "a") end))
    end
    assert.is_true(state:close())
    assert.equal("sediment.table (closed)", tostring(state))
  end)

  it("is not assigned to", function()
    local state = store:table "t"
    assert.matches("table_spec%.lua:%d+: the table t has no field 'a' to set; topic:append gives a key its value",
                   raised(function() state.a = 1 end))
    assert.is_nil(state.a)
    assert.matches("'5' to set", raised(function() state[5] = 1 end))
  end)

  it("passes, opened anew, a value that decode raises at and that was replaced", function()
    local options = { decode = function(value) return value ~= "x" and value or error("no number", 0) end }
    local state = store:table("t", options)
    put(topic, "a=x a=1")
    assert.equal("no number", raised(state.update, state))
    assert.equal("no number", raised(state.update, state))
    assert.equal("a=1", contents(store:table("t", options)))
  end)

  it("checks its arguments", function()
    local _, message, code = store:table "none"
    assert.equal("unknown_topic", code)
    assert.equal("there is no topic 'none'; make it with store:topic(name, {})", message)
    assert.matches("unknown option 'decoder'", raised(function() store:table("t", { decoder = print }) end))
    assert.matches("decode: function expected, got string", raised(function() store:table("t", { decode = "json" }) end))
    assert.matches("table_spec.lua:%d+: bad argument #1 to 'table' %(name: string expected, got nil", raised(function() store:table() end))
    assert.equal("unknown_partition", select(3, store:table("t"):offset(1)))
  end)

  describe("of several partitions", function()
    before_each(function() topic = store:topic("many", { partitions = 3, cleanup_policy = "compact" }) end)

    it("has the keys of all", function()
      for i = 1, 30 do topic:append("k" .. i, "1") end
      local state = store:table "many"
      assert.equal(30, state:count())
      for i = 1, 30, 2 do topic:append("k" .. i, nil) end
      assert.equal(15, state:update())
      assert.equal(15, state:count())
      assert.equal("1", state:get "k2")
      assert.is_nil(state:get "k1")
      local n = 0
      for p = 0, 2 do n = n + state:offset(p) end
      assert.equal(45, n)
    end)

    it("sweeps only the partition that was cleaned", function()
      for p = 0, 2 do topic:append("k" .. p, "1", { partition = p }) end
      local options, heard = listener()
      local state = store:table("many", options)
      heard()
      topic:append("k1", nil, { partition = 1 })
      topic:append("x", "1", { partition = 1 })
      topic:roll(1)
      assert(topic:compact { force = true })
      support.now = support.now + 86400001
      assert(topic:compact { force = true })
      assert(state:update())
      assert.equal("k0=1 k2=1 x=1", contents(state))
      assert.equal("", (heard():gsub("x:nil>1", ""):gsub("k1:1>nil", ""):gsub(" ", "")))
    end)

    it("has of a key in several partitions what it has read last, as README warns", function()
      topic:append("k", "old", { partition = 2 })
      local state = store:table "many"
      topic:append("k", "new", { partition = 0 })
      assert(state:update())
      assert.equal("new", state:get "k")
      assert.equal("old", store:table("many"):get "k")
    end)

    it("is copied to a topic of more partitions", function()
      for i = 1, 30 do topic:append("k" .. i, "1") end
      for i = 1, 10 do topic:append("k" .. i, nil) end
      local new = store:topic("new", { partitions = 5, cleanup_policy = "compact" })
      for key, value in store:table("many"):pairs() do new:append(key, value) end
      for i = 11, 20 do new:append("k" .. i, nil) end
      for i = 21, 30 do new:append("k" .. i, "2") end
      local state = store:table "new"
      for i = 1, 30 do assert.equal(i > 20 and "2" or nil, state:get("k" .. i)) end
    end)

    it("grows with the topic", function()
      for i = 1, 30 do topic:append("k" .. i, "1") end
      local state = store:table "many"
      assert(topic:alter { partitions = 5 })
      for i = 31, 60 do topic:append("k" .. i, "1") end
      assert.equal(30, state:update())
      assert.equal(60, state:count())
    end)
  end)

  it("drops the keys whose last record the log start has passed", function()
    local both = store:topic("both", { cleanup_policy = "compact,delete" })
    put(both, "a=1 b=1 a=2 c=1")
    local options, heard = listener()
    local state = store:table("both", options)
    heard()
    assert.equal(2, both:delete_records(2))
    assert.equal(1, state:update())
    assert.equal("b:1>nil", heard())
    assert.equal("a=2 c=1", contents(state))
    put(both, "d=1")
    assert.equal(4, both:delete_records(4))
    assert.equal(3, state:update())
    assert.equal("d=1", contents(state))
  end)

  it("tells when its topic was deleted", function()
    local state = store:table "t"
    store:delete_topic "t"
    assert.equal("unknown_topic", select(3, state:update()))
  end)

  -- Compiled code keeps nothing alive that it does not need any more.
  it("updates once at a time in compiled code, too, whenever the collector runs", function()
    if rawget(_G, "jit") then require("jit.opt").start "hotloop=1" end
    local yields = false
    local state = store:table("t", { decode = function(value)
      if yields then coroutine.yield() end
      return value
    end })
    for i = 1, 300 do
      topic:append("k", "old" .. i)
      yields = true
      local first = coroutine.wrap(function() return state:update() end)
      first()
      yields = false
      topic:append("k", "new" .. i)
      collectgarbage()
      assert.equal("busy", select(3, state:update()))
      assert.equal(1, first())
      assert.equal("old" .. i, state:get "k")
      assert.equal(1, state:update())
      assert.equal("new" .. i, state:get "k")
    end
    if rawget(_G, "jit") then require("jit.opt").start "hotloop=56" end
  end)
end)

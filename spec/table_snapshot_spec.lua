-- Snapshots of state tables: a restart goes on from one as if the table had stayed open. From which it does not: table_snapshot_stale_spec.
local core = require "sediment.core"
local support = require "support"
local disk = require "disk"
local of = require "state"

local raised, purge, contents, listener, put = support.raised, support.purge, of.contents, of.listener, of.put
local function number(value) return tonumber(value) end
local CONFIG = of.CONFIG

describe("the snapshot of a state table", function()
  local path, store, topic

  before_each(function() path, store, topic = of.begin() end)
  after_each(support.cleanup)

  local function open(options) return of.open(store, options) end
  local function leave(options) of.leave(store, options) end
  local function files() return of.snapshots(path) end

  local function reopen() store, topic = of.reopen(path, store) end

  it("is where a restart goes on", function()
    put(topic, "a=1 b=1 c=1 b-")
    leave()
    put(topic, "c=2 d=1")
    reopen()
    local state = open()
    assert.equal("snapshot", state:stats().origin)
    assert.is_nil(state:stats().note)
    assert.equal(3, state:count())
    assert.equal(6, state:offset())
    assert.equal("2", state:get "c")
    assert.equal("1", state:get "a")
    assert.is_nil(state:get "b")
    assert.equal("a=1 c=2 d=1", contents(state))
    assert.equal(0, state:update())
  end)

  it("decodes only what has come since", function()
    local decoded = {}
    local options = { decode = function(value, key)
      decoded[#decoded + 1] = key
      return tonumber(value)
    end }
    put(topic, "a=1 b=2")
    leave(options)
    put(topic, "b=3")
    decoded = {}
    assert.equal("a=1 b=3", contents(open(options)))
    assert.same({ "b" }, decoded)
  end)

  it("leaves a key where it is until somebody asks for it", function()
    put(topic, "a=1 b=1 c=1 d=1")
    leave()
    local state = open()
    assert.equal(4, state:count())
    put(topic, "a=2 b-")
    assert.equal(2, state:update())
    assert.equal(3, state:count())
    assert.equal("2", state:get "a")
    assert.is_nil(state:get "b")
    assert.equal("1", state:get "c")
    put(topic, "b=9")
    state:update()
    assert.equal("a=2 b=9 c=1 d=1", contents(state))
  end)

  it("is written with what the table has not asked for", function()
    put(topic, "a=1 b=1 c=1 d=1")
    leave()
    local state = open()
    put(topic, "a=2 b-")
    state:update()
    state:get "c"
    assert(state:snapshot() > 0)
    assert(state:close())
    assert.equal("a=2 c=1 d=1", contents(open()))
  end)

  it("tells on_change of each key, and then of what has come since", function()
    put(topic, "a=1 b=1")
    leave()
    put(topic, "a=2 b- c=1")
    local options, heard = listener()
    local state = open(options)
    local first, since = heard():match "^(%S+ %S+) (.*)$"
    assert.is_true(first == "a:nil>1 b:nil>1" or first == "b:nil>1 a:nil>1")
    assert.equal("a:1>2 b:1>nil c:nil>1", since)
    assert.equal("a=2 c=1", contents(state))
  end)

  it("is written by close if there is anything new", function()
    leave()
    put(topic, "a=1")
    leave()
    local name = path .. "/" .. files()[1]
    local before = disk.read(name)
    disk.write(name, before)
    local state = open()
    assert.equal("snapshot", state:stats().origin)
    disk.write(name, "as it was left")
    assert(state:close())
    assert.equal("as it was left", disk.read(name))
    disk.write(name, before)
    state = open()
    put(topic, "a=2")
    state:update()
    assert(state:close())
    assert.are_not.equal(before, disk.read(name))
  end)

  it("is written now and then, after so many records and as many as there are keys", function()
    local function position()
      local saved = core.snapshot_open(topic, "")
      return saved and saved:place(0)
    end
    put(topic, "a=1 b=1 c=1")
    local state = open { snapshot_every = 2 }
    assert.equal(3, position())
    put(topic, "a=2 a=3")
    state:update()
    assert.equal(3, position())
    put(topic, "a=4")
    state:update()
    assert.equal(6, position())
    state:put("a", "5")
    state:put("a", "6")
    assert.equal(6, position())
    state:put("a", "7")
    assert.equal(9, position())
    assert.is_nil(state:stats().snapshot_failure)
    local rare = open { snapshot = "rare", snapshot_every = math.huge }
    put(topic, "a=8")
    rare:update()
    assert.equal(1, #files())
  end)

  it("is not written of a table without it", function()
    put(topic, "a=1")
    local state = store:table "t"
    assert.matches("table_snapshot_spec.lua:%d+: snapshot: the table was opened without the option snapshot",
                   raised(function() state:snapshot() end))
    state:close()
    state = store:table("t", { snapshot = false })
    state:close()
    assert.same({}, files())
  end)

  it("holds any value that can come back as it was", function()
    local values = {
      { true, false, 0, -1, 2 ^ 53, -2 ^ 53, 0.5, 1e300, 1 / 0, -1 / 0, "", "text", "\0\255", ("long"):rep(1000) },
      {}, { 1, 2, 3 }, { { {} } },
      { [1] = "a", [3] = "c", x = 1, [0.5] = 2, [true] = 3, [-1] = { y = {} }, [""] = "" }, { n = 0, 1, nil, 3 },
    }
    put(topic, "a=1 b=1")
    leave { decode = function() return values end }
    local state = open { decode = error }
    assert.same(values, state:get "a")
    assert.equal(state:get "a", state:get "a")
    assert.are_not.equal(state:get "a", state:get "b")
    leave { snapshot = "nan", decode = function() return { nan = 0 / 0, zero = -0.0 } end }
    local odd = open({ snapshot = "nan", decode = error }):get "a"
    assert.is_true(odd.nan ~= odd.nan)
    assert.equal(-1 / 0, 1 / odd.zero)
    if not math.type then return end
    leave { snapshot = "kinds", decode = function() return { 1, 1.0, math.maxinteger, math.mininteger, 2.0 ^ 53 } end }
    for i, value in ipairs(open({ snapshot = "kinds", decode = error }):get "a") do
      assert.equal(({ "integer", "float", "integer", "integer", "float" })[i], math.type(value))
    end
  end)

  it("holds false, which is a value", function()
    put(topic, "a=1 b=1")
    leave { decode = function(_, key) return key == "b" end }
    local options, heard = listener { decode = function(_, key) return key == "b" end }
    local state = open(options)
    assert.equal(false, state:get "a")
    assert.equal(2, state:count())
    assert.matches("a:nil>false", heard())
  end)

  it("is not written when a value could not come back, and says whose", function()
    local loop = {}
    loop.loop = loop
    local deep = {}
    local innermost = deep
    for _ = 1, 100 do
      innermost[1] = {}
      innermost = innermost[1]
    end
    local bad = {
      ["a function"] = print, ["a thread"] = coroutine.create(print), ["a userdata"] = io.stdout,
      ["a table with a metatable"] = setmetatable({}, {}),
      ["a table that is 100 tables deep, or in itself,"] = loop, ["a table that is a key"] = { [{}] = 1 }, ["a function "] = { { print } },
      ["a table that is 100 tables deep, or in itself, "] = deep,
    }
    put(topic, "key=1")
    for what, value in pairs(bad) do
      local state = open { decode = function() return value end }
      local bytes, message, code = state:snapshot()
      assert.is_nil(bytes)
      assert.equal("unsupported", code)
      assert.equal("key 'key': " .. what:gsub(" $", "") .. " cannot be saved in a snapshot", message)
      assert.equal(message, state:stats().snapshot_failure)
      assert.same({ true, message, "unsupported" }, { state:close() })
      assert.same({}, files())
    end
  end)

  it("has a name, where there are several", function()
    put(topic, "a=1")
    leave { snapshot = "numbers", decode = number }
    leave { snapshot = "text-2" }
    leave()
    assert.equal(3, #files())
    assert.equal(1, open({ snapshot = "numbers", decode = number }):get "a")
    assert.equal("1", open({ snapshot = "text-2" }):get "a")
    store:topic("other", CONFIG)
    assert.equal("log", store:table("other", { snapshot = true }):stats().origin)
    store:delete_topic "t"
    assert.same({}, files())
  end)

  it("knows which partition a key is of", function()
    topic:alter { partitions = 2 }
    topic:append("a", "1", { partition = 0 })
    topic:append("b", "1", { partition = 1 })
    topic:append("c", "1", { partition = 1 })
    leave()
    local state = open()
    assert.equal("snapshot", state:stats().origin)
    assert.same({ 1, 2 }, { state:offset(0), state:offset(1) })
    topic:append("b", nil, { partition = 1 })
    topic:append("d", "1", { partition = 1 })
    purge(topic)
    topic:alter { partitions = 3 }
    topic:append("e", "1", { partition = 2 })
    assert.equal(3, state:update())
    assert.equal("a=1 c=1 d=1 e=1", contents(state))
    assert(state:close())
    assert.equal("a=1 c=1 d=1 e=1", contents(open()))
    assert.equal("snapshot", open():stats().origin)
  end)

  it("is gone on from in a topic that has grown", function()
    put(topic, "a=1 b=1")
    leave()
    topic:alter { partitions = 2 }
    topic:append("c", "1", { partition = 1 })
    local state = open()
    assert.equal("snapshot", state:stats().origin)
    assert.equal("a=1 b=1 c=1", contents(state))
  end)

  it("is read, and not written, where nothing is", function()
    put(topic, "a=1")
    leave()
    put(topic, "b=1")
    store:close()
    local before = disk.fingerprint(path)
    store = support.open(path, { readonly = true })
    local state = open()
    assert.equal("snapshot", state:stats().origin)
    assert.equal("a=1 b=1", contents(state))
    assert.equal("readonly", select(3, state:snapshot()))
    local closed, message, code = state:close()
    assert.same({ true, "readonly" }, { closed, code })
    assert.matches("read%-only", message)
    assert.equal(before, disk.fingerprint(path))
  end)

  it("makes durable what it tells of", function()
    topic:append("a", "1")
    assert.equal(0, topic:stats().partitions[0].durable_offset)
    leave()
    assert.equal(1, topic:stats().partitions[0].durable_offset)
  end)

  it("is not written from inside a callback, nor after the store was closed", function()
    local state, answer
    state = open { on_change = function() answer = state and { state:snapshot() } end }
    put(topic, "a=1")
    state:update()
    assert.equal("busy", answer[3])
    store:close()
    assert.same({ true, "no snapshot was written: the store was closed before the table", "closed" }, { state:close() })
    assert.same({ true }, { state:close() })
    assert.same({}, files())
  end)

  it("is not written of half a reading", function()
    local bad = false
    put(topic, "a=1 b=1 c=1")
    local state = open { decode = function(value)
      if bad then error "bad" end
      return value
    end }
    put(topic, "b- d=1")
    purge(topic)
    bad = true
    assert.matches("bad", raised(state.update, state))
    local bytes, message, code = state:snapshot()
    assert.is_nil(bytes)
    assert.equal("busy", code)
    assert.matches("update the table first", message)
    bad = false
    state:update()
    assert(state:snapshot())
  end)

  it("stays the old one when the disk fails", function()
    put(topic, "a=1")
    leave()
    local name = files()[1]
    local bytes = disk.read(path .. "/" .. name)
    local state = open()
    put(topic, "b=1")
    state:update()
    os.execute("mkdir '" .. path .. "/" .. name .. ".tmp'")
    assert.equal("io", select(3, state:snapshot()))
    os.execute("rmdir '" .. path .. "/" .. name .. ".tmp'")
    assert.equal(bytes, disk.read(path .. "/" .. name))
    assert(state:snapshot())
    assert.same({ name }, files())
  end)

  it("is written by one at a time", function()
    local state = open()
    local writer = assert(core.snapshot_begin(topic, "", "plain ", 0, {}))
    local bytes, message, code = state:snapshot()
    assert.is_nil(bytes)
    assert.equal("busy", code)
    assert.matches("just being written", message)
    writer:close()
    assert(state:snapshot())
  end)

  it("whose writing was cut off leaves nothing", function()
    leave()
    local writer = assert(core.snapshot_begin(topic, "", "plain ", 5, {}))
    assert(writer:add("k", "v", 0))
    assert.equal(2, #files())
    assert.matches("was given 1", raised(writer.commit, writer))
    writer:close()
    assert.equal(1, #files())
    disk.write(path .. "/" .. files()[1] .. ".tmp", "half of one")
    disk.write(path .. "/sediment.table-" .. ("A"):rep(22), "of a topic that is gone")
    reopen()
    assert.equal(1, #files())
    assert.equal("snapshot", open():stats().origin)
  end)

  it("of a topic that was deleted meanwhile is not left behind", function()
    local state = open()
    put(topic, "a=1")
    local writer = assert(core.snapshot_begin(topic, "", "plain ", 0, {}))
    store:delete_topic "t"
    assert.equal("unknown_topic", select(3, writer:commit()))
    writer:close()
    assert.equal("unknown_topic", select(3, state:snapshot()))
    assert.same({}, files())
  end)

  it("is left out of a backup, and no problem for verify", function()
    put(topic, "a=1")
    leave()
    assert.is_true(store:verify().ok)
    local copy = path .. "-copy"
    assert(store:backup(copy))
    assert.same({}, disk.list(copy, "sediment.table-"))
    local other = support.open(copy)
    assert.equal("a=1", contents(other:table("t", { snapshot = true })))
    other:close()
    os.execute("rm -rf '" .. copy .. "'")
  end)

  it("is the old one or the new one, whoever is killed as he writes it", function()
    local said = store:topic("said", {})
    local command = disk.script(path .. "/../other.lua", [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
      local said = assert(store:topic "said")
      local state = assert(store:table("t", { snapshot = true }))
      while true do
        assert(state:put("k" .. math.random(200), ("v"):rep(math.random(20000))))
        local bytes, message, code = state:snapshot()
        assert(bytes or code == "busy", message)
        said:append(nil, arg[2])
      end]])
    for round = 1, 6 do
      local others = {}
      for i = 1, 2 do others[i] = assert(io.popen(("%s '%s' %d 2>&1"):format(command, path, i))) end
      local seen = {}
      for _, _, who in said:records { from = "latest", follow = true } do
        seen[who] = (seen[who] or 0) + 1
        if (seen["1"] or 0) > round and (seen["2"] or 0) > 7 - round then break end
      end
      os.execute("pkill -KILL -f '^[^ ]*lua[^ ]* " .. path .. "/../other.lua'")
      for _, p in ipairs(others) do
        assert.equal("", (p:read("*a"):gsub("Killed%s*", "")))         -- which some shells say
        p:close()
      end
      local state = open()
      assert.equal("snapshot", state:stats().origin)
      assert.equal(contents(store:table "t"), contents(state))
      state:close()
    end
    assert(open():snapshot())
    assert.equal(1, #files())
  end)

  it("tells of damage that has come to its file since it was opened, and the next opening does without it", function()
    for i = 1, 200 do topic:append("k" .. i, ("v"):rep(100)) end
    leave()
    local name = path .. "/" .. files()[1]
    local state = open()
    local f = io.open(name, "r+b")
    f:seek("set", 10000)
    f:write "!"
    f:close()
    local failure = raised(function() return state:pairs() end)
    assert.equal("corrupt", failure.code)
    assert.matches("was damaged at position 8192 since it was opened; open the table anew", failure.message)
    local fresh = open()
    assert.equal("corrupt", fresh:stats().note_code)
    assert.equal(200, fresh:count())
  end)

  it("is of a topic with the longest name, too", function()
    local name = ("n"):rep(240)
    store:topic(name, CONFIG):append("a", "1")
    local state = store:table(name, { snapshot = ("s"):rep(64) })
    assert(state:snapshot())
    state:close()
    assert.equal("snapshot", store:table(name, { snapshot = ("s"):rep(64) }):stats().origin)
  end)

  it("is written by the one Lua and read by the other", function()
    local other = disk.lua() == "lua5.4" and "luajit" or "lua5.4"
    local text = [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
      local function decode(value) return { number = tonumber(value), half = value / 2, list = { 1, 2, 3 }, text = value } end
      local state = assert(store:table("t", { snapshot = true, decode = decode }))
      local a = state:get "a"
      io.write(state:stats().origin, " ", tostring(a.number == 24), " ", tostring(a.half == 12), " ", #a.list)
      state:close()
      store:close()]]
    disk.write(path .. "/../other.lua", text)
    put(topic, "a=24")
    store:close()
    local function run(lua)
      local p = io.popen(("eval \"$(make -s env LUA=%s)\"; %s '%s/../other.lua' '%s' 2>&1"):format(lua, lua, path, path))
      local output = p:read "*a"
      p:close()
      return output
    end
    assert.equal("log true true 3", run(disk.lua()))
    assert.equal("snapshot true true 3", run(other))
    assert.equal("snapshot true true 3", run(disk.lua()))
  end)

  it("checks its options", function()
    for expected, options in pairs {
      ["snapshot: true, or a name of up to 64 of a%-z A%-Z 0%-9 _ %- expected, got 'a/b'"] = { snapshot = "a/b" },
      ["snapshot: true, or a name of up to 64 .* got ''"] = { snapshot = "" },
      ["snapshot: true, or a name of up to 64 .* got number"] = { snapshot = 1 },
      ["schema: string expected, got number"] = { snapshot = true, schema = 1 },
      ["schema: at most 1000 bytes expected, got 1001"] = { snapshot = true, schema = ("s"):rep(1001) },
      ["snapshot_every: 1 or more records expected, got 0"] = { snapshot = true, snapshot_every = 0 },
      ["snapshot_every: number expected, got string"] = { snapshot = true, snapshot_every = "5" },
      ["schema and snapshot_every: only with snapshot"] = { schema = "1" },
    } do
      assert.matches("table_snapshot_spec.lua:%d+: bad argument #2 to 'table' %(" .. expected .. "%)",
                     raised(function() store:table("t", options) end))
    end
  end)

end)

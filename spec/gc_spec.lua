-- Lifetimes: any order of collection, closing twice, use after close, loops that are left early.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

local raised = support.raised

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("objects", function()
  after_each(support.cleanup)

  local function fill(topic, n)
    for i = 1, n do topic:append("k" .. i, "v" .. i) end
  end

  -- Its own store, which cleanup does not hold on to.
  local function loose_topic()
    local store = assert(sediment.open(support.path(), { background = false, clock = function() return support.now end }))
    return assert(store:topic("t", {}))
  end

  it("keep alive what they need: a topic its store", function()
    local topic = loose_topic()
    collect()
    fill(topic, 3)
    collect()
    assert.equal(3, topic:latest())
  end)

  it("keep alive what they need: an iterator its topic and store", function()
    local iterator = (function()
      local topic = loose_topic()
      fill(topic, 100)
      return (topic:records())
    end)()
    local n = 0
    for offset, key in iterator do
      if offset % 10 == 0 then collect() end
      n = n + 1
      assert.equal("k" .. n, key)
    end
    assert.equal(100, n)
  end)

  it("keep alive what they need: a state table its topic and store", function()
    local state = (function()
      local store = assert(sediment.open(support.path(), { background = false, clock = function() return support.now end }))
      fill(store:topic("t", {}), 3)
      return store:table "t"
    end)()
    collect()
    assert.equal(0, state:update())
    assert.equal("v2", state:get "k2")
  end)

  it("keep their clock alive, and may be its upvalue", function()
    do
      local store, times = nil, 0
      store = assert(sediment.open(support.path(), { background = false, clock = function()
        times = times + (store and 1 or 0)
        return support.now
      end }))
      local topic = store:topic("t", {})
      collect()
      topic:append("k", "v")
      assert.is_true(times > 0)
    end
    collect()
  end)

  it("may be collected in any order", function()
    for round = 1, 20 do
      local topic = loose_topic()
      fill(topic, 5)
      local iterator = topic:records()
      iterator()
      if round % 2 == 0 then topic = nil end
      if round % 3 == 0 then iterator = nil end
      collect()
      assert(iterator == nil or iterator() == 1)
      assert(topic == nil or topic:latest() == 5)
    end
    collect()
  end)

  it("survive finalizers that run twice", function()
    local topic, store = support.topic()
    for _, object in ipairs { topic, store } do
      local meta = debug.getmetatable(object)
      meta.__gc(object)
      meta.__gc(object)
    end
    assert.matches("use after close", raised(topic.latest, topic))
    assert.is_true(store:close())
  end)

  it("close more than once", function()
    local topic, store = support.topic()
    assert.is_true(store:close())
    assert.is_true(store:close())
    assert.equal("sediment.store (closed)", tostring(store))
    assert.equal("sediment.topic (closed)", tostring(topic))
  end)

  it("say what they are", function()
    local topic, store = support.topic()
    assert.matches("^sediment%.store %(/.*/store%)$", tostring(store))
    assert.equal("sediment.topic (t)", tostring(topic))
    assert.equal("sediment.table (t)", tostring(store:table "t"))
    assert.equal("sediment.topic", debug.getmetatable(topic).__name)
  end)

  it("raise use after close, with the position", function()
    local topic, store = support.topic()
    fill(topic, 3)
    local iterator, state = topic:records(), store:table "t"
    iterator()
    store:close()
    local calls = {
      function() store:topic "t" end, function() store:topics() end, function() store:maintain() end, function() store:stats() end,
      function() store:delete_topic "t" end, function() store:table "t" end, function() topic:append("k", "v") end,
      function() topic:append_batch { { key = "k" } } end, function() topic:records() end, function() topic:earliest() end,
      function() topic:latest() end, function() topic:offset_for_time(0) end, function() topic:delete_records(0) end,
      function() topic:roll() end, function() topic:flush() end, function() topic:retain() end, function() topic:compact() end,
      function() topic:segments() end, function() topic:config() end, function() topic:describe() end, function() topic:alter {} end,
      function() topic:stats() end, function() topic:partitions() end, function() iterator() end, function() state:update() end,
    }
    for _, call in ipairs(calls) do
      local err = raised(call)
      assert.equal("string", type(err))
      assert.matches("gc_spec%.lua:%d+: use after close: the store", err)
    end
  end)

  it("of a second handle go on when the first is closed", function()
    local path = support.path()
    local one, two = support.open(path), support.open(path)
    local topic = one:topic("t", {})
    topic:append("k", "v")
    assert.is_true(one:close())
    assert.matches("use after close", raised(topic.latest, topic))
    assert.equal(1, two:topic("t"):latest())
  end)
end)

describe("iterators", function()
  local topic

  before_each(function()
    topic = support.topic()
    for i = 1, 3 do topic:append("k" .. i, "v") end
  end)
  after_each(support.cleanup)

  it("may be called after their end", function()
    local iterator = topic:records()
    assert.equal(0, (iterator()))
    assert.equal(1, (iterator()))
    assert.equal(2, (iterator()))
    for _ = 1, 3 do assert.is_nil((iterator())) end
  end)

  it("end where the log ended when they were made", function()
    local n = 0
    for _ in topic:records() do
      n = n + 1
      if n < 10 then topic:append("more", "v") end
    end
    assert.equal(3, n)
  end)

  it("may be left early", function()
    for _ = 1, 200 do
      for offset in topic:records() do
        if offset == 1 then break end
      end
    end
    local reader = select(4, topic:records())
    if _VERSION ~= "Lua 5.1" then
      local meta = debug.getmetatable(reader)
      assert.equal("function", type(meta.__close))
      assert.matches("^sediment%.reader %(", tostring(reader))
      meta.__close(reader)
      assert.equal("sediment.reader (closed)", tostring(reader))
    end
  end)

  it("let a coroutine yield between records", function()
    local co = coroutine.wrap(function()
      for offset in topic:records() do coroutine.yield(offset) end
      return "end"
    end)
    assert.same({ 0, 1, 2, "end" }, { co(), co(), co(), co() })
  end)

  it("do not disturb each other", function()
    local seen = {}
    for a in topic:records() do
      for b in topic:records { from = a } do seen[#seen + 1] = a .. b end
    end
    assert.equal("00 01 02 11 12 22", table.concat(seen, " "))
  end)

  -- Whatever allocates may run a finalizer, in the middle of a call of ours. Each call is made with one pending that closes what it
  -- works on.
  local FINALIZED = [[
    local sediment = require "sediment"
    local path = arg[1]
    local store = assert(sediment.open(path, { background = false }))
    for i = 1, 50 do store:topic("t", {}):append("k" .. i, ("v"):rep(100)) end
    store:topic("t"):roll()
    store:close()
    local function finalizer(f)
      local function run() pcall(f) end
      if not newproxy then return setmetatable({}, { __gc = run }) end
      local proxy = newproxy(true)
      getmetatable(proxy).__gc = run
      return proxy
    end
    local function open_store() return assert(sediment.open(path, { background = false })) end
    local function open_topic()
      local store = open_store()
      return store:topic "t", function() store:close() end
    end
    local function read(log)
      for _ in log:records() do end
    end
    local function open_partition() return assert(sediment.open_partition(path .. "/t-0")) end
    local function iterator()
      local partition = open_partition()
      local iterate = partition:records()
      return iterate, function() for _ = 1, 100 do iterate() end end
    end
    local cases = {
      { open_partition, read }, { open_partition, function(p) p:stats() end }, { open_partition, function(p) p:segments() end },
      { open_partition, function(p) p:wait(0) end }, { open_store, function(s) s:topics() end }, { open_store, function(s) s:stats() end },
      { open_store, function(s) s:topic "t" end }, { open_store, function(s) s:maintain() end },
      { open_store, function(s) s:table "t" end },
      { open_topic, read }, { open_topic, function(t) t:segments() end }, { open_topic, function(t) t:stats() end },
      { open_topic, function(t) t:append("k", 5, { headers = { { "a", "b" }, { "c" } } }) end },
      { open_topic, function(t) t:config() end },
      { open_topic, function(t) t:append_batch { { key = 1, value = 2.5, headers = { { "a", "b" } } }, { key = 1, value = "x" } } end },
      { open_topic, function(t) t:compact { force = true } end },
      { open_topic, function(t) t:alter({ retention_ms = "1d" }, { "segment.ms" }) end },
      { iterator, function(iterate) for _ = 1, 60 do iterate() end end },
    }
    collectgarbage "setpause"
    for _, case in ipairs(cases) do
      for shift = 1, 40, 3 do
        local handle, close = case[1]()
        close = close or function() handle:close() end
        collectgarbage()
        finalizer(close)
        collectgarbage("setpause", 100)
        local garbage
        for i = 1, shift * 3 do garbage = { i, tostring(i) } end
        pcall(case[2], handle, garbage)
        pcall(close)
      end
    end
    os.exit(0, true)
  ]]

  it("survive a finalizer that closes what a call works on", function()
    local path = support.path()
    for _, pace in ipairs { "collectgarbage('setstepmul', 10000)", "collectgarbage('setpause', 1)" } do
      local command = disk.script(path .. ".lua", pace .. "\n" .. FINALIZED)
      assert.equal(0, disk.run(command .. " '" .. path .. "' > /dev/null"))
      disk.run("rm -rf '" .. path .. "'")
    end
  end)
end)

-- append_async: what is begun and what is told of it, when.
local sediment = require "sediment"
local core = require "sediment.core"
local support = require "support"

-- A function for on_done, and what it heard.
local function hearing()
  local heard = {}
  return heard, function(...) heard[#heard + 1] = { ... } end
end

-- As if the disk took so long: until the function that this gives is called, with what flush_poll is to answer, or nothing.
local function slow_disk(store)
  local reports = core.life(store).reports
  local plain = reports.flush_poll
  reports.flush_poll = function() return nil end
  return function(...)
    local answer = { n = select("#", ...), ... }
    reports.flush_poll = answer.n > 0 and function() return answer[1], answer[2], answer[3] end or plain
  end
end

describe("append_async", function()
  after_each(support.cleanup)

  it("appends at once, and what it gives is done", function()
    local topic, store = support.topic { partitions = 2 }
    local p = assert(topic:append_async("k", "v", { partition = 1, headers = { { "h", "1" } }, timestamp = 7 }))
    assert.equal(1, topic:latest(1))
    assert.is_true(p:done())
    assert.same({ 0, 1 }, { p:wait() })
    assert.same({ 0, 1 }, { p:wait(0) })
    assert.equal("sediment.pending (offset 0, partition 1)", tostring(p))
    local expected = { offset = 0, key = "k", value = "v", headers = { { "h", "1" } }, timestamp = 7 }
    assert.same({ expected }, support.collect(topic:records { partition = 1 }))
    assert.equal(0, store:pending())
    assert.equal(1, store:deliver())
    assert.equal(0, store:deliver(60000))
  end)

  it("tells on_done, in order, inside deliver, and once", function()
    local topic, store = support.topic()
    local heard, on_done = hearing()
    for _ = 1, 3 do topic:append_async("k", "v", { on_done = on_done }) end
    assert.same({}, heard)
    assert.equal(3, store:pending())
    assert.equal(3, store:deliver())
    assert.same({ { 0, 0 }, { 1, 0 }, { 2, 0 } }, heard)
    assert.equal(0, store:pending())
    assert.equal(0, store:deliver())
    assert.equal(3, #heard)
  end)

  it("tells it inside wait, flush and close as well", function()
    local topic, store = support.topic()
    local heard, on_done = hearing()
    local options = { on_done = on_done }
    assert.equal(0, (topic:append_async("k", "v", options):wait()))
    assert.equal(1, #heard)
    topic:append_async("k", "v", options)
    assert.equal(2, topic:flush())
    assert.equal(2, #heard)
    local last = topic:append_async("k", "v", options)
    assert.is_true(store:close())
    assert.same({ { 0, 0 }, { 1, 0 }, { 2, 0 } }, heard)
    assert.same({ 2, 0 }, { last:wait() })
    assert.is_true(store:close())
    assert.matches("use after close: the store is closed", support.raised(store.deliver, store))
    assert.matches("use after close: the store is closed", support.raised(topic.append_async, topic, "k", "v"))
  end)

  it("takes a failure of the append for its result", function()
    local topic, store = support.topic { cleanup_policy = "compact", max_message_bytes = 200 }
    local heard, on_done = hearing()
    local p = assert(topic:append_async(nil, "v", { on_done = on_done }))
    local large = topic:append_async("k", ("x"):rep(300))
    assert.is_true(p:done())
    local result, message, code = p:wait(0)
    assert.is_nil(result)
    assert.equal("invalid_record", code)
    assert.same({ { nil, message, code } }, heard)
    assert.equal("too_large", select(3, large:wait()))
    assert.equal("unknown_partition", select(3, topic:append_async("k", "v", { partition = 9 }):wait()))
    assert.matches("^sediment.pending %(.*no partition 9", tostring(topic:append_async("k", "v", { partition = 9 })))
    assert.equal(0, topic:latest())
    assert.is_true(store:close())
    assert.equal("invalid_record", select(3, p:wait()))
  end)

  it("is refused when the store only reads", function()
    local topic, store = support.topic()
    topic:append("k", "v")
    local path = tostring(store):match "%((.*)%)"
    store:close()
    local reader = support.open(path, { readonly = true }):topic "t"
    assert.equal("readonly", select(3, reader:append_async("k", "v"):wait()))
    assert.equal("readonly", select(3, reader:append_async("k", "v", { sync = true }):wait()))
  end)

  it("raises mistakes", function()
    local topic, store = support.topic()
    local p = topic:append_async("k", "v")
    local function raises(message, f)
      local raised = tostring(support.raised(f))
      assert.matches("append_async_spec.lua:%d+: " .. message, raised)
    end
    raises("bad argument #1 to 'append_async' %(key: string or whole number expected, got table%)", function() topic:append_async {} end)
    raises("bad argument #3 to 'append_async' %(unknown option 'foo'", function() topic:append_async("k", "v", { foo = 1 }) end)
    raises("bad argument #3 to 'append_async' %(on_done: function expected, got number%)", function()
      topic:append_async("k", "v", { on_done = 1 })
    end)
    raises("bad argument #3 to 'append' %(unknown option 'on_done'", function() topic:append("k", "v", { on_done = print }) end)
    raises("bad argument #1 to 'append_async' %(sediment.topic expected, got nil; call it with ':'%)", function() topic.append_async() end)
    raises("bad argument #1 to 'done' %(sediment.pending expected, got nil; call it with ':'%)", function() p.done() end)
    raises("bad argument #1 to 'wait' %(sediment.pending expected, got number; call it with ':'%)", function() p.wait(1) end)
    raises("bad argument #1 to 'wait' %(timeout_ms: 0 or more expected, got %-1", function() p:wait(-1) end)
    raises("bad argument #1 to 'deliver' %(timeout_ms: a whole number within 2%^53 expected, got x", function() store:deliver "x" end)
    raises("bad argument #1 to 'deliver' %(sediment.store expected, got nil; call it with ':'%)", function() store.deliver() end)
    raises("bad argument #1 to 'pending' %(sediment.store expected, got nil; call it with ':'%)", function() store.pending() end)
    assert.equal(1, topic:latest())
  end)

  it("lets what an on_done raises out of deliver, and tells the others by the next", function()
    local topic, store = support.topic()
    local heard, on_done = hearing()
    topic:append_async("k", "v", { on_done = function() error("mine", 0) end })
    topic:append_async("k", "v", { on_done = on_done })
    assert.equal("mine", support.raised(store.deliver, store))
    assert.equal(1, store:pending())
    store:deliver()
    assert.same({ { 1, 0 } }, heard)
    topic:append_async("k", "v", { on_done = function() error("at the end", 0) end })
    topic:append_async("k", "v", { on_done = on_done })
    assert.equal("at the end", support.raised(store.close, store))
    assert.same({ 3, 0 }, heard[2])
    assert.matches("use after close", support.raised(topic.latest, topic))
  end)

  it("may be called by an on_done, which has its turn later", function()
    local topic, store = support.topic()
    local times = 0
    local function again()
      times = times + 1
      topic:append_async("k", "v", { on_done = again })
    end
    again()
    for i = 1, 3 do
      assert.equal(1, store:deliver())
      assert.equal(i + 1, times)
    end
    assert.is_true(store:close())
    assert.equal(5, times)
  end)

  it("may have its store closed by an on_done", function()
    local topic, store = support.topic()
    local heard, on_done = hearing()
    topic:append_async("k", "v", { on_done = function() store:close() end })
    topic:append_async("k", "v", { on_done = on_done })
    assert.equal(2, store:deliver())
    assert.equal(1, #heard)
    assert.matches("use after close", support.raised(topic.latest, topic))
  end)

  it("is busy when too many reports wait for deliver", function()
    local topic, store = support.topic()
    local n = 0
    local options = { on_done = function() n = n + 1 end }
    for _ = 1, 100000 do assert(topic:append_async("k", "v", options)) end
    local p, message, code = topic:append_async("k", "v", options)
    assert.is_nil(p)
    assert.equal("busy", code)
    assert.matches("store:deliver", message)
    assert.equal(100000, topic:latest())
    assert.equal(100000, store:deliver())
    assert.equal(100000, n)
    assert(topic:append_async("k", "v", options))
  end)

  describe("with sync", function()
    it("is done once the record is on the disk", function()
      local topic, store = support.topic()
      local heard, on_done = hearing()
      topic:append_async("k", "v")
      local go_on = slow_disk(store)
      local p = topic:append_async("k", "v", { sync = true, on_done = on_done })
      assert.equal(2, topic:latest())
      assert.is_false(p:done())
      assert.equal("sediment.pending (under way)", tostring(p))
      assert.equal(1, store:pending())
      local result, _, code = p:wait(20)
      assert.is_nil(result)
      assert.equal("timeout", code)
      assert.equal(1, store:deliver())
      assert.equal(0, store:deliver(10))
      go_on()
      assert.equal(1, store:deliver(60000))
      assert.is_true(p:done())
      assert.same({ { 1, 0 } }, heard)
      assert.same({ 1, 0 }, { p:wait() })
    end)

    it("is done in the order of appends, over several partitions", function()
      local topic, store = support.topic { partitions = 3 }
      local heard, list = {}, {}
      for i = 1, 30 do
        list[i] = topic:append_async("k" .. i, "v", { sync = true, on_done = function() heard[#heard + 1] = i end })
      end
      assert(list[30]:wait())
      for i = 1, 30 do
        assert.is_true(list[i]:done())
        assert.equal(i, heard[i])
      end
      assert.equal(0, store:pending())
    end)

    it("is waited for by flush, and by close", function()
      local topic, store = support.topic { partitions = 2 }
      local p = topic:append_async("k", "v", { sync = true, partition = 1 })
      assert.equal(0, topic:flush(0))
      assert.is_true(p:done())
      p = topic:append_async("k", "v", { sync = true, partition = 1 })
      assert.is_true(store:close())
      assert.same({ 1, 1 }, { p:wait() })
    end)

    it("says that the record was appended when the disk fails", function()
      local topic, store = support.topic()
      local heard, on_done = hearing()
      topic:append_async("k", "v")
      local go_on = slow_disk(store)
      local p = topic:append_async("k", "v", { sync = true, on_done = on_done })
      go_on(nil, "no disk", "io")
      local result, message, code = p:wait()
      assert.is_nil(result)
      assert.equal("offset 1 was appended, but may not be on the disk: no disk", message)
      assert.equal("io", code)
      assert.same({ { nil, message, code } }, heard)
      topic:append_async("k", "v", { sync = true })
      local closed
      closed, message, code = store:close()
      assert.is_nil(closed)
      assert.equal("1 appends failed; the last: offset 2 was appended, but may not be on the disk: no disk", message)
      assert.equal("io", code)
      assert.is_true(store:close())
    end)
  end)

  it("keeps nothing of what is dropped", function()
    local topic, store = support.topic()
    local kept = setmetatable({}, { __mode = "k" })
    for i = 1, 100 do kept[topic:append_async("k", "v", { sync = i % 2 == 0 })] = true end
    topic:flush()
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(kept))
    assert.is_true(store:close())
  end)

  it("lets its store be collected", function()
    local gone = setmetatable({}, { __mode = "v" })
    do
      local store = assert(sediment.open(support.path()))
      gone[1] = store
      store:topic("t", {}):append_async("k", "v", { on_done = function() return store end })
    end
    for _ = 1, 3 do collectgarbage() end
    assert.is_nil(gone[1])
  end)

  it("is refused in a forked child, and calls nothing there", function()
    if not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
    local ffi = require "ffi"
    pcall(ffi.cdef, "int fork(void); int waitpid(int, int *, int); void _exit(int);")
    local topic, store = support.topic()
    local calls = 0
    topic:append_async("k", "v", { on_done = function() calls = calls + 1 end })
    local child = ffi.C.fork()
    if child == 0 then
      local good = select(3, topic:append_async("k", "v"):wait()) == "forked" and select(3, store:deliver()) == "forked"
      store:close()
      ffi.C._exit(good and calls == 0 and 7 or 1)
    end
    local status = ffi.new "int[1]"
    ffi.C.waitpid(child, status, 0)
    assert.equal(7, status[0] / 256)
    assert.equal(1, store:deliver())
    assert.equal(1, calls)
  end)
end)

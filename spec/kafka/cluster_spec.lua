-- What is special to stores on a Kafka cluster, against a real broker; spec/kafka/cluster starts one and runs this. What they have in
-- common with stores in folders is in spec/contract. Nothing here waits for a fixed time.
local sediment = require "sediment"
local support = require "support"
local core = require "sediment.kafka.core"

local SERVERS = assert(os.getenv "SEDIMENT_CLUSTER", "run spec/kafka/cluster")
local BROKER, DIR = os.getenv "SEDIMENT_BROKER", os.getenv "SEDIMENT_BROKER_DIR"
local LUA = (os.getenv "SEDIMENT_LUA" or "lua"):match "[^/]*$":gsub("[^%w]", "")
local PATH = "kafka://" .. SERVERS

local stores, made = {}, 0

local function open(options)
  local given = { timeout_ms = 10000 }
  for name, value in pairs(options or {}) do given[name] = value end
  local store = assert(sediment.open(PATH, given))
  stores[#stores + 1] = store
  return store
end

-- Each test has names of its own: what others have left in the cluster is nobody's business.
local function fresh(what)
  made = made + 1
  return ("%s-%s-%.0f-%d"):format(what or "t", LUA, core.monotonic_ms(), made)
end

local function topic_of(config, options)
  local store = open(options)
  local name = fresh()
  return assert(store:topic(name, config or {})), store, name
end

local function close_all()
  for _, store in ipairs(stores) do store:close() end
  stores = {}
end

local function run(command)
  local done = os.execute(command .. " > /dev/null 2>&1")
  return done == true or done == 0
end

local function broker(command, ...)
  assert(run(table.concat({ "'" .. BROKER .. "'", command, "'" .. DIR .. "'", ... }, " ")), command .. " failed")
end

-- What f answers first that is not nil, false or an empty table; nil after `seconds`.
local function await(seconds, f)
  local until_ms = core.monotonic_ms() + 1000 * seconds
  repeat
    local found = f()
    if found and not (type(found) == "table" and next(found) == nil) then return found end
  until core.monotonic_ms() > until_ms
end

local function pid()
  local f = assert(io.open(DIR .. "/1/pid"))
  local number = f:read "*n"
  f:close()
  return number
end

-- Each of its threads stops at its own time.
local function stand_still()
  run(("kill -STOP %d"):format(pid()))
  assert(await(10, function() return not run(("grep -q '^State:.*[RSD] ' /proc/%d/task/*/status"):format(pid())) end))
end

local function go_on() run(("kill -CONT %d"):format(pid())) end

local function words(...) return support.words(...) end

local function fails(code, ...)
  local result, message, got = ...
  assert.is_nil(result)
  assert.equal(code, got, message)
  return message
end

local function elapsed(f)
  local began = core.monotonic_ms()
  f()
  return core.monotonic_ms() - began
end

-- All that a consumer has, until it says that there is no more.
local function drain(consumer, max)
  local list = {}
  while true do
    local some = assert(consumer:poll { max = max })
    if #some == 0 then return list end
    for _, record in ipairs(some) do list[#list + 1] = record end
  end
end

describe("a cluster", function()
  after_each(close_all)

  describe("as a store", function()
    it("opens, tells its name, and closes more than once", function()
      local store = open()
      assert.equal("sediment.store (" .. PATH .. ")", tostring(store))
      assert.is_true(store:close())
      assert.is_true(store:close())
      assert.matches("use after close: the store is closed", support.raised(store.topics, store))
      assert.matches("use after close: the store is closed", support.raised(store.topic, store, "t"))
    end)

    it("refuses what is no address, and what is no option", function()
      for _, path in ipairs { "kafka://", "kafka://:1", "kafka://a:b", "kafka://a:0", "kafka://a,,b" } do
        assert.matches("path: kafka://host:port", support.raised(sediment.open, path))
      end
      assert.matches("unknown option 'foo'", support.raised(sediment.open, PATH, { foo = 1 }))
      assert.matches("option 'foo': librdkafka has none", support.raised(sediment.open, PATH, { options = { foo = 1 } }))
      assert.matches("option 'acks': it is not to be chosen", support.raised(sediment.open, PATH, { options = { acks = 1 } }))
      assert.matches("timeout_ms: a whole number from 100", support.raised(sediment.open, PATH, { timeout_ms = 1 }))
      fails("unsupported", sediment.open(PATH, { defaults = {} }))
      assert(open { options = { ["client.id"] = "x", ["linger.ms"] = 5 } })
    end)

    it("says unsupported to what is the brokers' affair", function()
      local topic, store = topic_of()
      for _, method in ipairs { "roll", "retain", "compact", "segments" } do fails("unsupported", topic[method](topic)) end
      for _, method in ipairs { "maintain", "import", "backup", "verify", "metrics" } do
        fails("unsupported", store[method](store, "x", "y"))
      end
      assert.matches("call it with ':'", support.raised(topic.roll))
    end)

    it("leaves no thread behind", function()
      local function threads()
        local p = io.popen "ls /proc/$PPID/task | wc -l"
        local n = tonumber(p:read "*a")
        p:close()
        return n
      end
      local function use()
        local topic, store, name = topic_of()
        topic:append("k", "v")
        topic:append_async("k", "v")
        assert(topic:records()())
        local consumer = assert(store:consumer { topics = { name }, group = name })
        consumer:poll()
        close_all()
      end
      use()
      collectgarbage()
      collectgarbage()
      local before = threads()
      for _ = 1, 3 do use() end
      collectgarbage()
      collectgarbage()
      assert.is_true(threads() <= before)
    end)
  end)

  describe("with topics", function()
    it("makes, lists and deletes them", function()
      local topic, store, name = topic_of { partitions = 3, retention_ms = "7d", ["min.insync.replicas"] = 1, replication = 1 }
      assert.equal("sediment.topic (" .. name .. ")", tostring(topic))
      assert.equal(3, topic:partitions())
      local listed = {}
      for _, each in ipairs(assert(store:topics())) do listed[each] = true end
      assert.is_true(listed[name])
      assert.is_true(store:delete_topic(name))
      fails("unknown_topic", store:topic(name))
      fails("unknown_topic", store:delete_topic(name))
      assert.is_true(store:delete_topic(name, { if_exists = true }))
    end)

    it("describes configs with values as a store here has them, and where they come from", function()
      local topic = topic_of { retention_ms = "1d", min_cleanable_dirty_ratio = 0.25, preallocate = false }
      local d, config = assert(topic:describe()), assert(topic:config())
      assert.same({ value = 86400000, source = "topic" }, d["retention.ms"])
      assert.same({ value = 0.25, source = "topic" }, d["min.cleanable.dirty.ratio"])
      assert.same({ value = "delete", source = "default" }, d["cleanup.policy"])
      assert.equal(1, d["min.insync.replicas"].value)
      assert.equal(false, d["unclean.leader.election.enable"].value)
      assert.equal(math.maxinteger or 2 ^ 63, config["flush.ms"])
      assert.equal(86400000, config["retention.ms"])
    end)

    it("raises mistakes in configs, its own and the cluster's", function()
      local topic, store = topic_of()
      local function refuses(what, ...) assert.matches(what, support.raised(...)) end
      refuses("cluster_spec.lua:%d+: config 'foo': there is no topic config of that name", function() store:topic("x", { foo = 1 }) end)
      refuses("config 'min.insync.replicas'", store.topic, store, "x", { min_insync_replicas = "x" })
      refuses("segment.bytes: Value must be at least 1048576", store.topic, store, fresh(), { segment_bytes = 300 })
      refuses("a name has 1 to 249", store.topic, store, "x y", {})
      refuses("replication", topic.alter, topic, { replication = 2 })
    end)

    it("has no more replicas than brokers", function()
      fails("policy", open():topic(fresh(), { replication = 3 }))
    end)
  end)

  describe("with records", function()
    it("sends keys where a store here does, and what has none in turn", function()
      local topic = topic_of { partitions = 5 }
      local here = support.topic { partitions = 5 }
      finally(support.cleanup)
      for i = 1, 40 do assert.equal(select(2, here:append("key" .. i, "v")), select(2, topic:append("key" .. i, "v"))) end
      local seen = {}
      for _ = 1, 5 do seen[select(2, topic:append(nil, "v"))] = true end
      assert.equal(5, #seen + 1)
    end)

    it("is not used after a fork", function()
      if not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
      local ffi = require "ffi"
      pcall(ffi.cdef, "int fork(void); int waitpid(int, int *, int); void _exit(int);")
      local topic, store = topic_of()
      topic:append("k", "v")
      local iterator = topic:records()
      local child = ffi.C.fork()
      if child == 0 then
        local function forked(_, _, code) return code == "forked" end
        local good = forked(topic:append("k", "v")) and forked(topic:latest()) and forked(store:topics())
        local ok, e = pcall(iterator)
        good = good and not ok and e.code == "forked"
        store:close()
        collectgarbage()
        ffi.C._exit(good and 7 or 1)
      end
      local status = ffi.new "int[1]"
      ffi.C.waitpid(child, status, 0)
      assert.equal(7, status[0] / 256)
      assert.equal(1, (topic:append("k", "of the parent")))
    end)
  end)

  describe("with appends that are not waited for", function()
    -- Appends until it is taken.
    local function begin(store, topic, ...)
      while true do
        local p, message, code = topic:append_async(...)
        if p then return p end
        assert.equal("busy", code, message)
        store:deliver(100)
      end
    end

    -- How often each value is in the topic, and where last.
    local function values_of(topic)
      local seen, offsets = {}, {}
      for offset, _, value in topic:records() do
        seen[value], offsets[value] = (seen[value] or 0) + 1, offset
      end
      return seen, offsets
    end

    it("keeps the order of each partition, in the log and in its reports", function()
      local topic, store = topic_of { partitions = 3 }
      local told, n = { [0] = {}, {}, {} }, 3000
      for i = 1, n do
        begin(store, topic, "k" .. i, tostring(i), { on_done = function(offset, p) told[p][offset] = tostring(i) end })
      end
      assert.same({ [0] = {}, {}, {} }, told)
      assert(topic:flush())
      assert.equal(0, store:pending())
      local count = 0
      for p = 0, 2 do
        local last = 0
        for offset, _, value in topic:records { partition = p } do
          assert.equal(told[p][offset], value)
          assert.is_true(tonumber(value) > last)
          last, count = tonumber(value), count + 1
        end
      end
      assert.equal(n, count)
    end)

    it("tells what has become of each, inside deliver, wait and flush alone", function()
      local topic, store = topic_of()
      local heard = {}
      local function on_done(...) heard[#heard + 1] = { ... } end
      local p = topic:append_async("k", "v", { on_done = on_done, headers = { { "h", "1" } }, timestamp = 1700000000000 })
      assert.equal(1, store:pending())
      assert(await(10, function() return p:done() end))
      assert.same({}, heard)
      assert.equal(1, store:deliver(10000))
      assert.same({ { 0, 0 } }, heard)
      assert.same({ 0, 0 }, { p:wait() })
      assert.same({ 1, 0 }, { topic:append_async("k", nil, { on_done = on_done }):wait(10000) })
      topic:append_async("k", "w", { on_done = on_done })
      assert.equal(3, topic:flush())
      assert.same({ { 0, 0 }, { 1, 0 }, { 2, 0 } }, heard)
      assert.equal(2, store:deliver())
      assert.equal(0, store:deliver(60000))
      local record = support.collect(topic:records())[1]
      assert.same({ offset = 0, key = "k", value = "v", headers = { { "h", "1" } }, timestamp = 1700000000000 }, record)
    end)

    it("takes a failure for the result", function()
      local topic, store, name = topic_of { cleanup_policy = "compact" }
      local function result(...) return assert(topic:append_async(...)):wait() end
      fails("invalid_record", result(nil, "v"))
      fails("unsupported", result("k", "v", { timestamp = 0 }))
      fails("invalid_timestamp", result("k", "v", { timestamp = -2 }))
      fails("unknown_partition", result("k", "v", { partition = 9 }))
      fails("too_large", result("k", ("x"):rep(2000000)))
      assert.matches("key: string or whole number expected", support.raised(topic.append_async, topic, {}, "v"))
      assert.matches("on_done: function expected", support.raised(topic.append_async, topic, "k", "v", { on_done = 1 }))
      assert.is_true(store:close())
      local reader = assert(open { readonly = true }:topic(name))
      fails("readonly", reader:append_async("k", "v"):wait())
      fails("readonly", reader:append_async("k", "v", { partition = 0 }):wait(0))
    end)

    it("delivers what nobody waits for, and keeps nothing of it", function()
      local topic, store = topic_of()
      local kept = setmetatable({}, { __mode = "k" })
      for i = 1, 5000 do kept[begin(store, topic, "k", "v" .. i)] = true end
      assert.equal(5000, topic:flush())
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(kept))
    end)

    it("delivers what a store has that is closed, or dropped", function()
      local topic, store, name = topic_of()
      local heard = 0
      for i = 1, 1000 do begin(store, topic, "k", "c" .. i, { on_done = function(offset) heard = heard + (offset and 1 or 0) end }) end
      local last = topic:append_async("k", "last")
      assert.is_true(store:close())
      assert.equal(1000, heard)
      assert.same({ 1000, 0 }, { last:wait() })
      local function drop()
        local dropped = assert(assert(sediment.open(PATH, { timeout_ms = 10000 })):topic(name))
        for i = 1, 100 do dropped:append_async("k", "d" .. i) end
      end
      drop()
      collectgarbage()
      collectgarbage()
      assert.equal(1101, open():topic(name):latest())
    end)

    it("is busy when librdkafka has all that it takes", function()
      local topic = topic_of({}, { options = { ["queue.buffering.max.messages"] = 10 } })
      assert(topic:append_async("k", "first"):wait())
      finally(go_on)
      stand_still()
      local n = 0
      local function more()
        local p, message, code = topic:append_async("k", "v")
        if not p then assert.equal("busy", code, message) end
        return p
      end
      while more() do n = n + 1 end
      go_on()
      assert.equal(10, n)
      assert(topic:flush())
      assert.equal(11, topic:latest())
      assert(topic:append_async("k", "last"):wait())
    end)

    it("says not yet, and at the end that it is over, while a broker stands still", function()
      local topic, store = topic_of({}, { timeout_ms = 1500 })
      assert(topic:append_async("k", "before"):wait())
      finally(go_on)
      stand_still()
      local p = topic:append_async("k", "during")
      local took = elapsed(function() fails("timeout", p:wait(100)) end)
      assert.is_true(took < 500, took)
      assert.is_false(p:done())
      took = elapsed(function() assert.is_nil((topic:flush())) end)       -- of the log end it is told nothing, either
      assert.is_true(took < 4000, took)
      assert(await(5, function() return p:done() end))
      local function given_up(_, message, code) assert.is_true(code == "timeout" or code == "unavailable", message) end
      given_up(p:wait())
      local heard = {}
      topic:append_async("k", "last", { on_done = function(...) heard[#heard + 1] = { ... } end })
      took = elapsed(function()
        local closed, message, code = store:close()
        assert.is_nil(closed)
        given_up(closed, message, code)
        assert.matches("^1 appends failed; the last: ", message)
      end)
      assert.is_true(took < 5000, took)
      given_up(heard[1][1], heard[1][2], heard[1][3])
      assert.is_true(store:close())
    end)

    it("is refused in a forked child, and calls nothing there", function()
      if not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
      local ffi = require "ffi"
      pcall(ffi.cdef, "int fork(void); int waitpid(int, int *, int); void _exit(int);")
      local topic, store = topic_of()
      local calls = 0
      local p = topic:append_async("k", "v", { on_done = function() calls = calls + 1 end })
      local child = ffi.C.fork()
      if child == 0 then
        local good = select(3, topic:append_async("k", "w"):wait()) == "forked" and select(3, store:deliver(1000)) == "forked"
        good = good and select(3, p:wait()) == "forked" and not p:done()
        store:close()
        ffi.C._exit(good and calls == 0 and 7 or 1)
      end
      local status = ffi.new "int[1]"
      ffi.C.waitpid(child, status, 0)
      assert.equal(7, status[0] / 256)
      assert.equal(0, (p:wait()))
      assert.equal(1, calls)
    end)

    it("loses nothing acknowledged, and has nothing twice, when its broker is killed in the midst and comes back", function()
      local topic, store = topic_of({}, { timeout_ms = 60000 })
      local acknowledged, refused, n = {}, 0, 20000
      for i = 1, n do
        local value = "v" .. i
        begin(store, topic, "k", value, { on_done = function(offset)
          if offset then acknowledged[value] = offset else refused = refused + 1 end
        end })
        if i == n / 2 then broker("kill", 1) end
        if i % 1000 == 0 then store:deliver() end
      end
      broker("restart", 1)
      while store:pending() > 0 do assert(store:deliver(1000)) end
      local count, last = 0, -1
      for i = 1, n do
        local offset = acknowledged["v" .. i]
        if offset then
          assert.is_true(offset > last)
          count, last = count + 1, offset
        end
      end
      assert.equal(n, count + refused)
      assert.is_true(count >= n / 2, count)
      local seen, offsets = values_of(topic)
      for value, offset in pairs(acknowledged) do assert.equal(offset, offsets[value], value) end
      for value, times in pairs(seen) do assert.equal(1, times, value) end
    end)
  end)

  describe("with transactions", function()
    local function transact(name, ...)
      local file = BROKER:gsub("broker$", "Transactions.java")
      local command = "java -cp '%s' '%s' '%s' '%s' %s"
      assert(run(command:format(os.getenv "SEDIMENT_CLASSPATH", file, SERVERS, name, table.concat({ ... }, " "))))
    end

    it("shows no marker and nothing aborted, and ends where the log ends", function()
      local topic, store, name = topic_of()
      transact(name, "commit:2", "abort:3")
      assert.equal("k0=commit-0 k1=commit-1", words(topic:records()))
      assert.equal("k0=commit-0 k1=commit-1 k0=abort-0 k1=abort-1 k2=abort-2", words(topic:records { isolation = "uncommitted" }))
      assert.equal(7, topic:latest())
      assert.equal("", words(topic:records { from = 3 }))
      local consumer = assert(store:consumer { topics = { name }, group = name })
      assert.equal(2, #drain(consumer))
      assert.equal(7, consumer:position(name))
      assert.equal(0, consumer:lag().total)
      local state = assert(store:table(name))
      assert.same({ 2, 7 }, { state:count(), state:offset() })
      assert.equal(0, state:update())
    end)

    it("shows nothing past one that is open", function()
      local topic, store, name = topic_of()
      transact(name, "commit:1", "open:2")
      topic:append("behind", "v")
      assert.equal("k0=commit-0", words(topic:records()))
      assert.equal("k0=commit-0 k0=open-0 k1=open-1 behind=v", words(topic:records { isolation = "read_uncommitted" }))
      local consumer = assert(store:consumer { topics = { name } })
      assert.equal(1, #drain(consumer))
      assert.equal(1, assert(store:table(name)):count())
    end)
  end)

  describe("that fails", function()
    it("is unavailable at once when no broker is there", function()
      local took = elapsed(function()
        local message = fails("unavailable", sediment.open("kafka://127.0.0.1:1", { timeout_ms = 20000 }))
        assert.matches("Connection refused", message)
      end)
      assert.is_true(took < 5000, took)
      fails("unavailable", sediment.open("kafka://nowhere.invalid:9092", { timeout_ms = 20000 }))
    end)

    it("refuses who speaks another protocol, within the limit", function()
      local took = elapsed(function()
        local store, _, code = sediment.open(PATH, { timeout_ms = 3000, options = { ["security.protocol"] = "ssl" } })
        assert.is_nil(store)
        assert.is_true(code == "unauthorized" or code == "unavailable" or code == "timeout", code)
      end)
      assert.is_true(took < 4000, took)
    end)

    it("is unauthorized when it refuses the login, or what one wants to do", function()
      local login = assert(os.getenv "SEDIMENT_LOGIN")
      local function settings(password)
        return { ["security.protocol"] = "sasl_plaintext", ["sasl.mechanism"] = "PLAIN", ["sasl.username"] = "alice",
                 ["sasl.password"] = password }
      end
      local took = elapsed(function()
        local message = fails("unauthorized", sediment.open("kafka://" .. login, { timeout_ms = 20000, options = settings "wrong" }))
        assert.matches("[Aa]uthentication", message)
      end)
      assert.is_true(took < 5000, took)
      local _, _, name = topic_of()
      local store = assert(sediment.open("kafka://" .. login, { timeout_ms = 3000, options = settings "secret" }))
      stores[#stores + 1] = store
      fails("unauthorized", store:topic(name))
      fails("unauthorized", store:topic(fresh(), {}))
      fails("unauthorized", store:delete_topic(name))
    end)

    it("says unknown_topic of one that was deleted meanwhile, and goes on when it is made anew", function()
      local topic, store, name = topic_of()
      topic:append("k", "v")
      local consumer = assert(store:consumer { topics = { name } })
      drain(consumer)
      assert.is_true(open():delete_topic(name))
      fails("unknown_topic", topic:append("k", "v"))
      fails("unknown_topic", topic:latest())
      fails("unknown_topic", topic:partitions())
      fails("unknown_topic", topic:describe())
      fails("unknown_topic", topic:wait(0, 10))
      assert.equal("unknown_topic", support.raised(topic.records, topic).code)
      assert.equal("unknown_topic", await(20, function() return select(3, consumer:poll { timeout_ms = 500 }) end))
      local again = assert(open():topic(name, {}))
      assert.equal(0, (again:append("k", "new")))
      assert.equal(1, (topic:append("k", "newer")))
    end)

    it("is waited for while it stands still, and no longer than the limit", function()
      local topic, store, name = topic_of({}, { timeout_ms = 3000 })
      topic:append("k", "before")
      local consumer = assert(store:consumer { topics = { name }, group = name })
      assert(consumer:poll())
      stand_still()
      finally(go_on)
      local took = elapsed(function()
        local offset, message, code = topic:append("k", "during")
        assert.is_nil(offset)
        assert.is_true(code == "timeout" or code == "unavailable", message)
      end)
      assert.is_true(took < 3500, took)
      local others = {
        function() return topic:latest() end, function() return topic:describe() end, function() return store:groups() end,
        function() return consumer:poll() end, function() return consumer:commit() end, function() return consumer:lag() end,
        function() return pcall(topic.records, topic) or nil end, function() return store:table(name) end,
      }
      for i, f in ipairs(others) do
        took = elapsed(function() assert.is_nil((f()), i) end)
        assert.is_true(took < 3600, i .. ": " .. took)
      end
      took = elapsed(function()
        assert.is_nil((sediment.open(PATH, { timeout_ms = 1000 })))
      end)
      assert.is_true(took < 1500, took)
      go_on()
      assert(await(20, function() return (topic:append("k", "after")) end))
      local count = { before = 0, during = 0, after = 0 }
      for _, _, value in topic:records() do count[value] = count[value] + 1 end
      assert.equal(1, count.before)
      assert.is_true(count.during <= 1)
      assert.is_true(count.after >= 1)
    end)

    it("loses nothing acknowledged, and has nothing twice, when its broker is killed and comes back", function()
      local topic, store, name = topic_of({}, { timeout_ms = 4000 })
      local acknowledged, n = {}, 0
      local function append()
        n = n + 1
        local offset, message, code = topic:append("k", "v" .. n)
        if offset then acknowledged["v" .. n] = offset end
        return offset, message, code
      end
      for _ = 1, 200 do assert(append()) end
      local consumer = assert(store:consumer { topics = { name }, group = name })
      assert.equal(200, #drain(consumer))
      assert.is_true(consumer:commit())
      local iterator = topic:records { follow = true }
      iterator()
      broker("kill", 1)
      local took = elapsed(function()
        local _, message, code = append()
        assert.is_true(code == "unavailable" or code == "timeout", message)
      end)
      assert.is_true(took < 4500, took)
      fails("unavailable", topic:latest())
      fails("unavailable", store:topics())
      fails("unavailable", sediment.open(PATH, { timeout_ms = 4000 }))
      broker("restart", 1)
      assert(await(30, append))
      for _ = 1, 200 do assert(append()) end
      local seen = {}
      for offset, _, value in topic:records() do
        seen[value] = (seen[value] or 0) + 1
        if acknowledged[value] then assert.equal(acknowledged[value], offset) end
      end
      for value in pairs(acknowledged) do assert.equal(1, seen[value], value) end
      for value, times in pairs(seen) do assert.equal(1, times, value) end
      local offset
      repeat offset = iterator() until offset == topic:latest() - 1
      local more = {}
      await(30, function()
        for _, record in ipairs(consumer:poll { timeout_ms = 200 } or {}) do more[record.offset] = true end
        return more[topic:latest() - 1]
      end)
      assert.is_nil(more[199])
      for each = 200, topic:latest() - 1 do assert.is_true(more[each], each) end
      assert.is_true(consumer:commit())
    end)
  end)
end)

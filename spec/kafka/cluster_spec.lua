-- A store on a Kafka cluster, against a real broker; spec/kafka/cluster starts one and runs this. Nothing here waits for a fixed time.
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

    it("refuses to write when it is opened to read", function()
      local _, _, name = topic_of()
      local store = open { readonly = true }
      local topic = assert(store:topic(name))
      fails("readonly", topic:append("k", "v"))
      fails("readonly", store:topic(fresh(), {}))
      fails("readonly", store:delete_topic(name))
      assert.equal(0, topic:latest())
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

    it("alters configs, and lets them go back", function()
      local topic, store, name = topic_of { retention_ms = "1d" }
      assert.is_true(topic:alter { ["segment.bytes"] = "2MiB", cleanup_policy = "compact,delete" })
      local d = assert(topic:describe())
      assert.same({ value = 2097152, source = "topic" }, d["segment.bytes"])
      assert.same({ value = 86400000, source = "topic" }, d["retention.ms"])
      assert.is_true(topic:alter({}, { "retention_ms", "cleanup.policy" }))
      d = assert(topic:describe())
      assert.equal("default", d["cleanup.policy"].source)
      assert.equal("topic", d["segment.bytes"].source)
      assert(store:topic(name, { retention_ms = "2d" }))
      assert.equal(172800000, topic:config()["retention.ms"])
    end)

    it("raises mistakes in configs, its own and the cluster's", function()
      local topic, store = topic_of()
      local function refuses(what, ...) assert.matches(what, support.raised(...)) end
      refuses("cluster_spec.lua:%d+: config 'foo': there is no topic config of that name", function() store:topic("x", { foo = 1 }) end)
      refuses("config 'retention.ms': '7x' is not a number of milliseconds", store.topic, store, "x", { retention_ms = "7x" })
      refuses("config 'min.insync.replicas'", store.topic, store, "x", { min_insync_replicas = "x" })
      refuses("segment.bytes: Value must be at least 1048576", store.topic, store, fresh(), { segment_bytes = 300 })
      refuses("a name has 1 to 249", store.topic, store, "x y", {})
      refuses("config 'foo': there is no topic config", topic.alter, topic, {}, { "foo" })
      refuses("set and to go back", topic.alter, topic, { retention_ms = 1 }, { "retention.ms" })
      refuses("replication", topic.alter, topic, { replication = 2 })
    end)

    it("gives a topic more partitions, and never fewer", function()
      local topic = topic_of { partitions = 2 }
      assert.is_true(topic:alter { partitions = 4 })
      assert.equal(4, topic:partitions())
      assert.same({ 0, 3 }, { topic:append("k", "v", { partition = 3 }) })
      fails("policy", topic:alter { partitions = 1 })
      fails("policy", open():topic(fresh(), { replication = 3 }))
    end)
  end)

  describe("with records", function()
    local HEADERS = { { "a", "1" }, { "b" }, { "", "" } }

    it("gives them back as they were appended", function()
      local topic = topic_of()
      local T = 1700000000000
      assert.same({ 0, 0 }, { topic:append("k", "v", { timestamp = T, headers = HEADERS }) })
      assert.equal(1, (topic:append(24, 0.5, { timestamp = T })))
      assert.equal(2, (topic:append("", "", { timestamp = -1 })))
      assert.equal(3, (topic:append(nil, "keyless", { timestamp = T })))
      assert.equal(4, (topic:append("k", nil, { timestamp = 2 ^ 40, headers = {}, sync = true })))
      assert.same({
        { offset = 0, key = "k", value = "v", timestamp = T, headers = HEADERS },
        { offset = 1, key = "24", value = "0.5", timestamp = T },
        { offset = 2, key = "", value = "", timestamp = -1 },
        { offset = 3, value = "keyless", timestamp = T },
        { offset = 4, key = "k", timestamp = 2 ^ 40 },
      }, support.collect(topic:records()))
    end)

    it("takes the time from the clock", function()
      local topic = topic_of({}, { clock = function() return 1700000000123 end })
      topic:append("k", "v")
      assert.equal(1700000000123, select(4, topic:records()()))
    end)

    it("sends keys where a store here does, and what has none in turn", function()
      local topic = topic_of { partitions = 5 }
      local here = support.topic { partitions = 5 }
      finally(support.cleanup)
      for i = 1, 40 do assert.equal(select(2, here:append("key" .. i, "v")), select(2, topic:append("key" .. i, "v"))) end
      local seen = {}
      for _ = 1, 5 do seen[select(2, topic:append(nil, "v"))] = true end
      assert.equal(5, #seen + 1)
    end)

    it("appends batches to one partition, in every codec", function()
      local topic = topic_of { partitions = 3 }
      local first, last = assert(topic:append_batch { { key = "k", value = "1" }, { key = "k", value = "2", headers = HEADERS } })
      assert.equal(1, last - first)
      fails("invalid_record", topic:append_batch { { key = "a" }, { key = "b" }, { key = "c" }, { key = "d" }, { key = "e" } })
      fails("invalid_record", topic:append_batch {})
      local before = topic:latest(2)
      fails("unsupported", topic:append_batch({ { value = "x" }, { value = "y", timestamp = 0 } }, { partition = 2 }))
      assert.equal(before, topic:latest(2))
      for _, codec in ipairs { "none", "gzip", "snappy", "lz4", "zstd" } do
        assert(topic:append_batch({ { value = codec }, { value = codec .. "!" } }, { partition = 2, compression = codec }))
      end
      local values = {}
      for _, _, value in topic:records { partition = 2 } do values[#values + 1] = value end
      local all = table.concat(values, " ")
      assert.truthy(all:find("none none! gzip gzip! snappy snappy! lz4 lz4! zstd zstd!", 1, true), all)
    end)

    it("appends a batch of thousands in order, from its first offset to its last", function()
      local topic, batch = topic_of(), {}
      for i = 1, 20000 do batch[i] = { key = "k", value = ("%06d"):format(i) } end
      assert.same({ 0, 19999 }, { topic:append_batch(batch) })
      local n = 0
      for offset, _, value in topic:records() do
        assert(offset == n and tonumber(value) == n + 1)
        n = n + 1
      end
      assert.equal(20000, n)
    end)

    it("refuses what cannot be sent", function()
      local topic = topic_of { cleanup_policy = "compact" }
      fails("invalid_record", topic:append(nil, "v"))
      fails("unsupported", topic:append("k", "v", { timestamp = 0 }))
      fails("invalid_timestamp", topic:append("k", "v", { timestamp = -2 }))
      fails("unknown_partition", topic:append("k", "v", { partition = 9 }))
      fails("too_large", topic:append("k", ("x"):rep(2000000)))
      assert.matches("key: string or whole number expected", support.raised(topic.append, topic, {}, "v"))
      assert.matches("unknown option 'foo'", support.raised(topic.append, topic, "k", "v", { foo = 1 }))
      assert.same({ 0, 0 }, { topic:append("k", "v") })           -- and goes on behind all of that
    end)

    it("refuses timestamps that the topic does not take", function()
      local topic = topic_of { ["message.timestamp.before.max.ms"] = "1h" }
      fails("invalid_timestamp", topic:append("k", "v", { timestamp = 1000 }))
      assert.equal(0, (topic:append("k", "v")))
    end)

    it("reads from, to, by time, and to the end that there was", function()
      local topic = topic_of()
      for i = 0, 9 do topic:append("k" .. i, "v", { timestamp = 1000 + 10 * i }) end
      assert.equal("k3=v k4=v", words(topic:records { from = 3, to = 5 }))
      assert.equal("k8=v k9=v", words(topic:records { from = { time = 1071 } }))
      assert.equal("", words(topic:records { from = { time = 5000 } }))
      assert.equal("", words(topic:records { from = "latest" }))
      local n = 0
      for _ in topic:records() do
        n = n + 1
        if n < 5 then topic:append("more", "v") end
      end
      assert.equal(10, n)
      local e = support.raised(topic.records, topic, { from = 99 })
      assert.equal("offset_out_of_range", e.code)
      assert.matches("offset 99 is outside the log, which begins at 0", tostring(e))
      assert.equal("unknown_partition", support.raised(topic.records, topic, { partition = 7 }).code)
      assert.equal("unsupported", support.raised(topic.records, topic, { on_corrupt = "skip" }).code)
    end)

    it("follows, and ends when nothing comes", function()
      local topic = topic_of()
      topic:append("a", "1")
      local iterator, got = topic:records { follow = true, timeout_ms = 300 }, {}
      for _, key in iterator do
        got[#got + 1] = key
        if key == "a" then topic:append("b", "2") end
      end
      assert.equal("a b", table.concat(got, " "))
      local ready = topic:records { follow = true, timeout_ms = 0, from = "latest" }
      assert.is_nil(ready())
      topic:append("c", "3")
      assert.equal(2, await(10, ready))
    end)

    it("looks offsets up", function()
      local topic = topic_of { partitions = 2 }
      for i = 1, 3 do topic:append("k", "v", { timestamp = 1000 * i, partition = 1 }) end
      assert.same({ 0, 0, 0, 3 }, { topic:earliest(), topic:latest(), topic:earliest(1), topic:latest(1) })
      assert.equal(1, topic:offset_for_time(1500, 1))
      assert.is_nil((topic:offset_for_time(9000, 1)))
      fails("unknown_partition", topic:latest(2))
      fails("unknown_partition", topic:earliest(-1))
      fails("unknown_partition", topic:offset_for_time(1, 5))
      assert.equal(3, topic:stats().partitions[1].log_end_offset)
    end)

    it("deletes records, and never those of a compacted topic", function()
      local topic = topic_of()
      for i = 1, 5 do topic:append("k" .. i, "v") end
      assert.equal(3, topic:delete_records(3))
      assert.equal(3, topic:delete_records(1))
      assert.equal(3, topic:earliest())
      assert.equal("k4=v k5=v", words(topic:records()))
      assert.equal("offset_out_of_range", support.raised(topic.records, topic, { from = 0 }).code)
      fails("offset_out_of_range", topic:delete_records(6))
      fails("offset_out_of_range", topic:delete_records(-1))
      local compacted = topic_of { cleanup_policy = "compact" }
      compacted:append("k", "v")
      fails("policy", compacted:delete_records(1))
    end)

    it("waits for records", function()
      local topic = topic_of()
      assert.is_nil((topic:wait(0, 50)))
      topic:append("k", "v")
      assert.equal(1, topic:wait(0))
      assert.matches("timeout_ms: 0 or more", support.raised(topic.wait, topic, 0, -1))
      fails("unknown_partition", topic:wait(0, 10, 9))
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

  describe("with consumers", function()
    local function filled(partitions)
      local topic, store, name = topic_of { partitions = partitions or 3 }
      for i = 1, 30 do topic:append("k" .. i, "v" .. i) end
      return topic, store, name
    end

    it("reads all partitions without a group, from where it is told", function()
      local topic, store, name = filled()
      local consumer = assert(store:consumer { topics = { name } })
      assert.equal("sediment.consumer (no group)", tostring(consumer))
      local list = drain(consumer, 7)
      assert.equal(30, #list)
      assert.equal(0, consumer:lag().total)
      assert.same({ [name] = { 0, 1, 2 } }, consumer:assignment())
      assert.equal(topic:latest(1), consumer:position(name, 1))
      assert.is_true(consumer:seek(name, 1, "earliest"))
      assert.equal(topic:latest(1), #drain(consumer))
      assert.is_true(consumer:seek(name, 1, 1))
      assert.equal(1, assert(consumer:poll { max = 1 })[1].offset)
      fails("unknown_partition", consumer:seek(name, 9, 0))
      fails("unknown_topic", consumer:position("nope"))
      assert.matches("this consumer has no group", support.raised(consumer.commit, consumer))
      assert.is_true(consumer:close())
      assert.matches("use after close: the consumer is closed", support.raised(consumer.poll, consumer))
      local latest = assert(store:consumer { topics = { name }, auto_offset_reset = "latest" })
      assert.same({}, latest:poll())
      topic:append("new", "v", { partition = 2 })
      assert.equal("new", assert(latest:poll { timeout_ms = 10000 })[1].key)
    end)

    it("goes on where its group has committed", function()
      local _, store, name = filled()
      local group = fresh "g"
      local consumer = assert(store:consumer { topics = { name }, group = group })
      local list = drain(consumer)
      assert.equal(30, #list)
      assert.is_nil((consumer:committed(name, 0)))
      assert.is_true(consumer:commit(list[1]))
      assert.equal(list[1].offset + 1, (consumer:committed(name, list[1].partition)))
      assert.is_true(consumer:commit())
      assert.is_true(consumer:commit { [name] = { [1] = { offset = 2, metadata = "why" } } })
      assert.same({ 2, "why" }, { consumer:committed(name, 1) })
      assert.is_true(consumer:close())
      local told = assert(store:group(group))
      assert.equal(0, told.members)
      assert.same({ offset = 2, metadata = "why" }, told.offsets[name][1])
      local second = assert(store:consumer { topics = { name }, group = group })
      assert.equal(2, second:position(name, 1))
      for _, record in ipairs(drain(second)) do assert.equal(1, record.partition) end
      assert.equal(1, store:group(group).members)
      fails("busy", store:delete_group(group))
      second:close()
      assert.is_true(store:delete_group(group))
      fails("not_found", store:group(group))
      fails("not_found", store:delete_group(group))
    end)

    it("divides partitions among the members, and refuses commits for what is another's", function()
      local _, store, name = filled(4)
      local group = fresh "g"
      local a = assert(store:consumer { topics = { name }, group = group })
      drain(a)
      local b = assert(store:consumer { topics = { name }, group = group })
      local mine, yours = a:assignment()[name], b:assignment()[name]
      assert.same({ 2, 2 }, { #mine, #yours })
      fails("fenced", a:commit { [name] = { [yours[1]] = 1 } })
      fails("fenced", a:position(name, yours[1]))
      drain(a)
      assert.is_true(a:commit())
      drain(b)
      assert.is_true(b:commit())
      a:close()
      assert.equal(4, await(20, function()
        b:poll()
        local now = b:assignment()[name] or {}
        return #now == 4 and 4
      end))
      assert.equal(0, b:lag().total)
    end)

    it("pauses and resumes", function()
      local topic, store, name = filled()
      for _, group in ipairs { false, fresh "g" } do
        local consumer = assert(store:consumer { topics = { name }, group = group or nil })
        assert.is_true(consumer:pause(name, 1))
        for _, record in ipairs(drain(consumer)) do assert.not_equal(1, record.partition) end
        assert.is_true(consumer:resume(name, 1))
        assert.equal(topic:latest(1), #drain(consumer))
        consumer:close()
      end
    end)

    it("begins nowhere when it is told none, until a seek", function()
      local _, store, name = filled(2)
      for _, group in ipairs { false, fresh "g" } do
        local consumer = assert(store:consumer { topics = { name }, group = group or nil, auto_offset_reset = "none" })
        assert.matches("nothing is committed", fails("offset_out_of_range", consumer:poll()))
        fails("offset_out_of_range", consumer:poll())
        for p = 0, 1 do assert.is_true(consumer:seek(name, p, "earliest")) end
        assert.equal(30, #drain(consumer))
        assert.is_true(consumer:seek(name, 0, 1000))
        assert.matches("offset 1000 is not within the log", fails("offset_out_of_range", await(10, function()
          return not consumer:poll() and consumer
        end):poll()))
        consumer:close()
      end
    end)

    it("begins anew when retention was faster", function()
      local topic, store, name = topic_of()
      for i = 1, 10 do topic:append("k" .. i, "v") end
      local group = fresh "g"
      local consumer = assert(store:consumer { topics = { name }, group = group })
      assert.is_true(consumer:commit { [name] = { [0] = 2 } })
      consumer:close()
      topic:delete_records(5)
      consumer = assert(store:consumer { topics = { name }, group = group })
      assert.equal(5, #drain(consumer))
    end)

    it("iterates, and commits as it goes", function()
      local _, store, name = filled(1)
      local group, n = fresh "g", 0
      local consumer = assert(store:consumer { topics = { name }, group = group })
      for _ in consumer:records { commit_every = 10 } do
        n = n + 1
        if n == 25 then break end
      end
      assert.equal(20, (consumer:committed(name)))
      consumer:close()
      n = 0
      for _ in assert(store:consumer { topics = { name }, group = group }):records { commit_every = 3 } do n = n + 1 end
      assert.equal(10, n)
      assert.equal(30, store:group(group).offsets[name][0].offset)
    end)

    it("is told mistakes", function()
      local _, store, name = filled(1)
      fails("unknown_topic", store:consumer { topics = { fresh() } })
      fails("unsupported", store:consumer { topics = { name }, on_corrupt = "skip" })
      local function refuses(what, options) assert.matches(what, support.raised(store.consumer, store, options)) end
      refuses("topics: table expected", { topics = "x" })
      refuses("unknown option 'foo'", { topics = { name }, foo = 1 })
      refuses("auto_offset_reset", { topics = { name }, auto_offset_reset = "x" })
    end)
  end)

  describe("with state tables", function()
    it("keeps the last value of each key", function()
      local topic, store, name = topic_of { cleanup_policy = "compact", partitions = 2 }
      for i = 1, 20 do topic:append("k" .. i % 5, "v" .. i) end
      topic:append("k0", nil)
      local heard = {}
      local state = assert(store:table(name, { on_change = function(key, new, old) heard[#heard + 1] = { key, new, old } end }))
      assert.equal(4, state:count())
      assert.equal(4, #heard)
      assert.equal("v16", state:get "k1")
      topic:append("k1", "new")
      topic:append("k2")
      assert.equal(2, state:update())
      assert.same({ "new", nil, 3 }, { state:get "k1", state:get "k2", state:count() })
      assert(state:put("x", 1))
      assert.equal("1", state:get "x")
      assert(state:delete "x")
      assert.is_nil(state:get "x")
      assert.equal(0, state:update())
      assert.equal(0, state:wait(10))
      local plain = assert(store:table(name))
      assert.equal(3, plain:count())
      fails("unsupported", store:table(name, { snapshot = true }))
      fails("unknown_topic", store:table(fresh()))
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

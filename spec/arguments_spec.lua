-- What the methods take, what they refuse and how they say so. The same on both Luas.
local sediment = require "sediment"
local support = require "support"

local raised = support.raised

local function raises(pattern, f)
  local err = raised(f)
  assert.equal("string", type(err))
  assert.matches("arguments_spec%.lua:%d+: ", err)
  assert.matches(pattern, err)
end

describe("arguments", function()
  local topic, store

  before_each(function() topic, store = support.topic() end)
  after_each(support.cleanup)

  describe("of append", function()
    it("are strings or numbers", function()
      assert.same({ 0, 0 }, { topic:append("k", "v") })
      topic:append(7, 2.5)
      topic:append("", "")
      topic:append("k")
      topic:append(nil, "v")
      local list = support.collect(topic:records())
      assert.same({ "7", "2.5" }, { list[2].key, list[2].value })
      assert.same({ "", "" }, { list[3].key, list[3].value })
      assert.is_nil(list[4].value)
      assert.is_nil(list[5].key)
      raises("bad argument #1 to 'append' %(key: string or whole number expected, got table%)", function() topic:append({}, "v") end)
      raises("bad argument #2 to 'append' %(value: string or finite number expected, got boolean%)", function() topic:append("k", true) end)
    end)

    -- What a record of this value, and of this key, has for them.
    local function kept(key, value)
      topic:append(key, value, { headers = { { key, value } } })
      local list = support.collect(topic:records())
      local r = list[#list]
      assert.same({ { r.key, r.value } }, r.headers)
      topic:append_batch { { key = key, value = value } }
      list = support.collect(topic:records())
      assert.same({ r.key, r.value }, { list[#list].key, list[#list].value })
      return r.key, r.value
    end

    it("have whole numbers as their digits", function()
      local wholes = { [0] = "0", [24] = "24", [-7] = "-7", [1e15] = "1000000000000000", [123456789012345] = "123456789012345",
                       [2 ^ 53] = "9007199254740992", [-2 ^ 53] = "-9007199254740992", [2 ^ 53 - 1] = "9007199254740991" }
      for number, text in pairs(wholes) do
        assert.same({ text, text }, { kept(number, number) })
        assert.same({ text, text }, { kept(number * 1.0, number / 1) })
      end
      assert.same({ "0", "0" }, { kept(-0.0, -0.0) })
      if math.maxinteger then
        assert.same({ "9223372036854775807", "-9223372036854775808" }, { kept(math.maxinteger, math.mininteger) })
      end
    end)

    it("have other numbers in the shortest form that reads back", function()
      local texts = { { 0.5, "0.5" }, { 0.1, "0.1" }, { -2.25, "-2.25" }, { 1e-7, "1e-07" }, { 1e300, "1e+300" },
                      { 2 ^ 60, "1.152921504606847e+18" }, { 1 / 3, "0.3333333333333333" }, { 0.1 + 0.2, "0.30000000000000004" } }
      for _, pair in ipairs(texts) do
        local number, text = pair[1], pair[2]
        local _, value = kept("k", number)
        assert.equal(text, value)
        assert.equal(number, tonumber(value))
      end
    end)

    it("have no key that is not whole, and no number that is not finite", function()
      local function append(key, value) return function() topic:append(key, value) end end
      local function header(name, value) return function() topic:append("k", "v", { headers = { { name, value } } }) end end
      raises("bad argument #1 to 'append' %(key: string or whole number expected, got 2.5%)", append(2.5, "v"))
      raises("key: string or whole number expected, got 1.152921504606847e%+18, beyond 2^53", append(2 ^ 60, "v"))
      raises("bad argument #2 to 'append' %(value: string or finite number expected, got nan%)", append("k", 0 / 0))
      raises("value: string or finite number expected, got %-inf", append("k", -1 / 0))
      raises("key: string or whole number expected, got inf", append(1 / 0))
      raises("key: string or whole number expected, got nan", append(-(0 / 0)))
      raises("headers%[1%]: string or whole number as name expected, got 0.5", header(0.5, "v"))
      raises("headers%[1%]: string or finite number as value, or nil, expected, got nan", header("h", 0 / 0))
      raises("record 1: key: string or whole number expected, got 0.5", function() topic:append_batch { { key = 0.5 } } end)
      assert.equal(0, topic:latest())
    end)

    it("keep every byte", function()
      local all = {}
      for i = 0, 255 do all[i + 1] = string.char(i) end
      all = table.concat(all)
      topic:append(all, all:rep(300), { headers = { { all, all } } })
      local r = support.collect(topic:records())[1]
      assert.equal(all, r.key)
      assert.equal(all:rep(300), r.value)
      assert.same({ { all, all } }, r.headers)
    end)

    it("take options by name only", function()
      raises("bad argument #3 to 'append' %(unknown option 'timstamp'; there are partition, sync, timestamp, headers%)",
             function() topic:append("k", "v", { timstamp = 1 }) end)
      raises("bad argument #3 to 'append' %(table of options expected, got number%)", function() topic:append("k", "v", 5) end)
      raises("bad argument #3 to 'append' %(options have names", function() topic:append("k", "v", { 5 }) end)
      raises("sync: boolean expected, got number", function() topic:append("k", "v", { sync = 1 }) end)
      raises("partition: a whole number within 2^53 expected, got string", function() topic:append("k", "v", { partition = "0" }) end)
    end)

    it("have whole timestamps", function()
      raises("timestamp: a whole number within 2^53 expected, got 5.5", function() topic:append("k", "v", { timestamp = 5.5 }) end)
      raises("timestamp: a whole number", function() topic:append("k", "v", { timestamp = 2 ^ 60 }) end)
      raises("timestamp: a whole number", function() topic:append("k", "v", { timestamp = 0 / 0 }) end)
      raises("timestamp: a whole number", function() topic:append("k", "v", { timestamp = "5" }) end)
      assert(topic:append("k", "v", { timestamp = 5.0 }))
      assert(topic:append("k", "v", { timestamp = -1 }))
      local list = support.collect(topic:records())
      assert.equal(5, list[1].timestamp)
      assert.equal(-1, list[2].timestamp)
      assert.equal("invalid_timestamp", select(3, topic:append("k", "v", { timestamp = -2 })))
    end)

    it("have headers in pairs", function()
      topic:append("k", "v", { headers = { { "a", "1" }, { "a" }, { "", "" }, { 5, 6 } } })
      topic:append("k", "v", { headers = {} })
      local list = support.collect(topic:records())
      assert.same({ { "a", "1" }, { "a" }, { "", "" }, { "5", "6" } }, list[1].headers)
      assert.is_nil(list[2].headers)
      local function headers(given) return function() topic:append("k", "v", { headers = given }) end end
      raises("headers: an array of {name, value} pairs expected, got string", headers "a")
      raises("headers: an array of {name, value} pairs expected, got the key 'trace'%)", headers { trace = "abc" })
      raises("got the key 'trace'", headers { { "a", "b" }, trace = "abc" })
      raises("got the key %[3%]%)", headers { { "a", "b" }, [3] = { "a", "b" } })
      raises("got the key %[0.5%]%)", headers { [0.5] = { "a", "b" } })
      raises("got the key %[true%]%)", headers { [true] = { "a", "b" } })
      raises("headers%[2%]: a pair {name, value} expected, got string", function()
        topic:append("k", "v", { headers = { { "a" }, "b" } })
      end)
      raises("headers%[1%]: string or whole number as name expected, got nil", function()
        topic:append("k", "v", { headers = { { a = "b" } } })
      end)
      raises("headers%[1%]: string or finite number as value, or nil, expected, got boolean", function()
        topic:append("k", "v", { headers = { { "a", true } } })
      end)
    end)

    it("name a partition that exists", function()
      for _, p in ipairs { 1, -1, 2 ^ 40 } do
        assert.equal("unknown_partition", select(3, topic:append("k", "v", { partition = p })))
      end
    end)
  end)

  describe("of append_batch", function()
    it("are tables of known fields", function()
      local records = { { key = 1, value = 2.5 }, { key = "k" }, { value = "v", timestamp = 9, headers = { { "h", 3 } } } }
      assert.same({ 0, 2 }, { topic:append_batch(records) })
      assert.equal(1, records[1].key)
      assert.equal(2.5, records[1].value)
      local list = support.collect(topic:records())
      assert.same({ "1", "2.5" }, { list[1].key, list[1].value })
      assert.equal(support.now, list[2].timestamp)
      assert.same({ 9, { { "h", "3" } } }, { list[3].timestamp, list[3].headers })
    end)

    it("are refused with the number of the record", function()
      local function batch(second) return function() topic:append_batch { { key = "k" }, second } end end
      local fields = "; key=, value=, timestamp=, headers= expected%)"
      raises("bad argument #1 to 'append_batch' %(record 2: unknown field 'vale'" .. fields, batch { vale = 1 })
      raises("record 2: key: string or whole number expected, got table", batch { key = {} })
      raises("record 2: timestamp: a whole number within 2^53 expected, got 0.5", batch { timestamp = 0.5 })
      raises("record 2: headers%[1%]: a pair", batch { headers = { 1 } })
      raises("record 2: table expected, got string", batch "k")
      raises("record 2: unknown field %[[12]%]" .. fields, batch { "a", "b" })
      raises("bad argument #1 to 'append_batch' %(records: an array of records expected, got the field '[kv]%w+'%)", function()
        topic:append_batch { key = "a", value = "b" }
      end)
      raises("an array of records expected, got the field 'n'", function() topic:append_batch { { key = "a" }, n = 1 } end)
      raises("an array of records expected, got the field %[0%]", function() topic:append_batch { [0] = { key = "a" } } end)
      raises("records: an array of records expected, got string", function() topic:append_batch "k" end)
      raises("unknown option 'key'", function() topic:append_batch({}, { key = 1 }) end)
      raises("compression: one of none, gzip, snappy, lz4, zstd expected, got 'zip'", function()
        topic:append_batch({ { key = "k" } }, { compression = "zip" })
      end)
      assert.equal(0, topic:latest())
    end)

    it("are at least one record", function()
      assert.equal("invalid_record", select(3, topic:append_batch {}))
    end)

    it("may be many, with numbers and headers in all of them", function()
      local records = {}
      for i = 1, 5000 do records[i] = { key = i, value = i + 0.5, headers = { { "n", i } } } end
      assert.same({ 0, 4999 }, { topic:append_batch(records) })
      local i = 0
      for offset, key, value, _, headers in topic:records() do
        i = i + 1
        assert(offset == i - 1 and key == tostring(i) and value == tostring(i + 0.5) and headers[1][2] == tostring(i))
      end
      assert.equal(5000, i)
    end)
  end)

  describe("of records", function()
    before_each(function()
      for i = 0, 9 do topic:append("k" .. i, "v", { timestamp = support.now + i }) end
    end)

    local function offsets(options)
      local list = {}
      for offset in topic:records(options) do list[#list + 1] = offset end
      return table.concat(list, " ")
    end

    it("say where to begin and to end", function()
      assert.equal("0 1 2 3 4 5 6 7 8 9", offsets())
      assert.equal("0 1 2 3 4 5 6 7 8 9", offsets { from = "earliest", isolation = "uncommitted", partition = 0 })
      assert.equal("", offsets { from = "latest" })
      assert.equal("8 9", offsets { from = 8 })
      assert.equal("", offsets { from = 10 })
      assert.equal("3 4", offsets { from = { time = support.now + 3 }, to = 5 })
      assert.equal("", offsets { from = { time = support.now + 10 } })
      assert.equal("", offsets { from = 5, to = 5 })
      assert.equal("0 1 2 3 4 5 6 7 8 9", offsets { to = 1000 })
    end)

    it("are checked", function()
      local function records(options) return function() topic:records(options) end end
      raises("unknown option 'form'", records { form = 1 })
      raises("from: \"earliest\", \"latest\", an offset or {time = ms} expected", records { from = "first" })
      raises("bad argument #1 to 'records' %(from: {time = ms} expected, got an empty table%)", records { from = {} })
      raises("bad argument #1 to 'records' %(from: {time = ms} expected, got the field 'ms'%)", records { from = { ms = 1 } })
      raises("from: {time = ms} expected, got the field %[1%]", records { from = { 5 } })
      raises("bad argument #1 to 'records' %(from.time: a whole number", records { from = { time = "now" } })
      raises("got the field 'tme'", records { from = { time = 1, tme = 1 } })
      raises("from: a whole number within 2^53 expected, got 1.5", records { from = 1.5 })
      raises("to: a whole number", records { to = 2 ^ 54 })
      raises("isolation: \"committed\" or \"uncommitted\" expected, got 'dirty'", records { isolation = "dirty" })
    end)

    it("raise an error object for what lies outside", function()
      local err = raised(function() return topic:records { from = 11 } end)
      assert.equal("offset_out_of_range", err.code)
      assert.equal(err.message, tostring(err))
      assert.equal("t-0: offset 11 is outside the log, which begins at 0 (log start offset) and ends at 10 (log end offset)", err.message)
      assert.equal("x: " .. err.message, "x: " .. err)
      assert.equal(err.message .. 5, err .. 5)
      assert.equal(err.message .. err.message, err .. err)
      assert.is_false(pcall(function() return err .. {} end))
      assert.equal("offset_out_of_range", raised(function() return topic:records { from = -1 } end).code)
      assert.equal("unknown_partition", raised(function() return topic:records { partition = 1 } end).code)
    end)
  end)

  it("that number a partition are whole and known", function()
    for _, method in ipairs { "earliest", "latest", "roll", "flush", "segments" } do
      assert.equal("unknown_partition", select(3, topic[method](topic, 1)))
      assert.equal("unknown_partition", select(3, topic[method](topic, -1)))
      raises("partition: a whole number within 2^53 expected, got string", function() topic[method](topic, "0") end)
    end
    assert.equal("unknown_partition", select(3, topic:offset_for_time(0, 1)))
    assert.equal("unknown_partition", select(3, topic:delete_records(0, 1)))
    raises("bad argument #1 to 'offset_for_time' %(time: a whole number", function() topic:offset_for_time() end)
    raises("bad argument #1 to 'delete_records' %(offset: a whole number", function() topic:delete_records(0.5) end)
  end)

  describe("of open", function()
    it("are checked", function()
      raises("bad argument #1 to 'open' %(path: string expected, got no value%)", function() sediment.open() end)
      raises("path: a string without NUL", function() sediment.open "a\0b" end)
      raises("bad argument #1 to 'open' %(path: an empty string%)", function() sediment.open "" end)
      raises("dir: an empty string", function() sediment.open_partition "" end)
      raises("bad argument #2 to 'open' %(unknown option 'retention_ms'; it is a topic config: put it in defaults= or in " ..
             "store:topic%(name, {...}%)%)", function() sediment.open("x", { retention_ms = 5 }) end)
      raises("unknown option 'cleanup.policy'; it is a topic config", function() sediment.open("x", { ["cleanup.policy"] = "compact" }) end)
      raises("unknown option 'partitions'; it is a topic config: put it in store:topic%(name, {...}%)", function()
        sediment.open("x", { partitions = 5 })
      end)
      for _, name in ipairs { "linger_ms", "log.cleaner.enable", "log.cleaner.threads", "log.cleaner.io.buffer.load.factor" } do
        raises("unknown option '" .. name .. "'; it is a store option: put it in options=%)", function()
          sediment.open("x", { [name] = 5 })
        end)
      end
      raises("unknown option 'read_only'", function() sediment.open("x", { read_only = true }) end)
      raises("create: boolean expected, got string", function() sediment.open("x", { create = "yes" }) end)
      raises("clock: function expected, got number", function() sediment.open("x", { clock = 5 }) end)
      raises("defaults: table expected, got number", function() sediment.open("x", { defaults = 5 }) end)
      raises("config 'retention.ms': 'never'", function() sediment.open(support.path(), { defaults = { retention_ms = "never" } }) end)
      raises("option 'log.dir': there is no", function() sediment.open(support.path(), { options = { ["log.dir"] = "x" } }) end)
      raises("dir: string expected", function() sediment.open_partition {} end)
    end)

    it("name a path that is there, when create is off", function()
      local result, message, code = sediment.open(support.path(), { create = false, background = false })
      assert.is_nil(result)
      assert.equal("string", type(message))
      assert.equal("not_found", code)
      assert.equal("not_found", select(3, sediment.open_partition(support.path())))
    end)
  end)

  describe("of configs", function()
    it("are named and checked", function()
      raises("config 'retention.ms': '7 weeks' is not a number of milliseconds", function()
        store:topic("b", { retention_ms = "7 weeks" })
      end)
      raises("config 'colour'", function() store:topic("b", { colour = "red" }) end)
      local function unknown(name, said)
        raises("config '" .. name .. "': there is no topic config of that name; " .. said, function() store:topic("b", { [name] = 1 }) end)
        raises("config '" .. name .. "': there is no topic config of that name; " .. said, function() topic:alter({}, { name }) end)
      end
      unknown("cleanup", "did you mean 'cleanup.policy'%?")
      unknown("cleanup_polcy", "did you mean 'cleanup.policy'%?")
      unknown("segment.byte", "did you mean 'segment.bytes'%?")
      unknown("zebra", "docs/configs.md has them all")
      unknown("", "docs/configs.md has them all")
      raises("config 'linger_ms': it is a store option: put it in options= of sediment.open", function()
        store:topic("b", { linger_ms = 1 })
      end)
      raises("option 'retention_ms': it is a topic config: put it in defaults= or in store:topic", function()
        sediment.open(support.path(), { options = { retention_ms = 5 } })
      end)
      raises("option 'linger': there is no store option of that name; did you mean 'linger.ms'%?", function()
        sediment.open(support.path(), { options = { linger = 5 } })
      end)
      raises("config 'retention_ms': string, number or boolean expected, got table", function() store:topic("b", { retention_ms = {} }) end)
      raises("names of settings are strings, got a number", function() store:topic("b", { "retention_ms" }) end)
      raises("bad argument #2 to 'topic' %(config: table expected, got string%)", function() store:topic("b", "compact") end)
      raises("bad argument #1 to 'alter' %(config: table expected, got nil%)", function() topic:alter() end)
      raises("names: string expected, got number", function() topic:alter({}, { 5 }) end)
      raises("config 'colour'", function() topic:alter({}, { "colour" }) end)
      raises("topic name 'a/b'", function() store:topic("a/b", {}) end)
      raises("name: string expected, got nil", function() store:topic() end)
      assert.same({ "t" }, store:topics())
    end)

    it("read back as they are meant", function()
      topic:alter { ["cleanup.policy"] = "delete,compact", retention_ms = "7d", segment_bytes = "1MiB", min_cleanable_dirty_ratio = 0.25,
                    preallocate = "false", flush_ms = 2 ^ 63 }
      local config = topic:config()
      assert.equal("compact,delete", config["cleanup.policy"])
      assert.equal(604800000, config["retention.ms"])
      assert.equal(1048576, config["segment.bytes"])
      assert.equal(0.25, config["min.cleanable.dirty.ratio"])
      assert.equal(false, config.preallocate)
      assert.equal(math.maxinteger or 2 ^ 63, config["flush.ms"])
      assert.equal(math.maxinteger or 2 ^ 63, config["max.compaction.lag.ms"])
      assert.same({ value = 604800000, source = "topic" }, topic:describe()["retention.ms"])
      assert.is_true(topic:alter({}, { "retention.ms" }))
      assert.equal("default", topic:describe()["retention.ms"].source)
    end)
  end)

  it("that say when are whole", function()
    for _, call in ipairs { function(o) topic:retain(o) end, function(o) topic:compact(o) end, function(o) store:maintain(o) end } do
      raises("now: a whole number within 2^53 expected, got string", function() call { now = "now" } end)
      raises("unknown option 'when'", function() call { when = 1 } end)
    end
    raises("bad argument #1 to 'maintain' %(table of options expected, got number%)", function() store:maintain(5) end)
    raises("bad argument #1 to 'maintain' %(sediment.store expected, got number; call it with ':'%)", function() store.maintain(5) end)
    raises("unknown option 'force'", function() topic:retain { force = true } end)
    raises("force: boolean expected", function() topic:compact { force = 1 } end)
    raises("unknown option 'if_exist'", function() store:delete_topic("t", { if_exist = true }) end)
  end)

  it("include the right self", function()
    local err = raised(topic.append, store, "k", "v")
    assert.matches("sediment.topic expected, got userdata; call it with ':'", err)
    raises("bad argument #1 to 'latest' %(sediment.topic expected, got no value; call it with ':'%)", function() topic.latest() end)
    raises("bad argument #1 to 'append' %(sediment.topic expected, got string; call it with ':'%)", function() topic.append("k", "v") end)
    raises("bad argument #1 to 'close' %(sediment.store expected, got no value; call it with ':'%)", function() store.close() end)
    raises("bad argument #1 to 'table' %(sediment.store expected, got string; call it with ':'%)", function() store.table "t" end)
    raises("bad argument #1 to 'table' %(sediment.store expected, got userdata", function() store.table(topic) end)
    local state = store:table "t"
    for _, method in ipairs { "get", "update", "pairs", "count", "offset", "close" } do
      local f = state[method]
      for _, self in ipairs { "a", 5, {} } do
        raises("bad argument #1 to '" .. method .. "' %(sediment.table expected, got " .. type(self) .. "; call it with ':'%)", function()
          f(self)
        end)
      end
      raises("sediment.table expected, got nil", function() f() end)
    end
    assert.matches("sediment.store expected, got nil", raised(store.topics, nil))
    assert.matches("sediment.store expected, got table", raised(store.close, {}))
  end)
end)

describe("the clock", function()
  after_each(support.cleanup)

  it("gives the time of records without one", function()
    local topic = support.topic()
    topic:append("a", "1")
    support.now = support.now + 5
    topic:append_batch { { key = "b" } }
    local list = support.collect(topic:records())
    assert.equal(support.now - 5, list[1].timestamp)
    assert.equal(support.now, list[2].timestamp)
  end)

  it("must be a function that returns whole numbers", function()
    local value = support.now
    local topic = support.topic({}, { clock = function() return value end })
    for _, bad in ipairs { "1", 1.5, 2 ^ 60, {} } do
      value = bad
      assert.matches("clock: a whole number of milliseconds expected", raised(topic.append, topic, "k", "v"))
    end
    value = support.now
    assert.equal(0, (topic:append("k", "v")))
  end)

  it("may raise, and what it raises comes through", function()
    local trouble
    local topic = support.topic({}, { clock = function() if trouble then error(trouble, 0) end return support.now end })
    trouble = { "stopped" }
    assert.equal(trouble, raised(topic.append, topic, "k", "v"))
    trouble = nil
  end)

  it("that raises does not keep the store open", function()
    local trouble
    local store = support.open(nil, { clock = function() if trouble then error(trouble, 0) end return support.now end })
    local topic = store:topic("t", {})
    topic:append("k", "v")
    trouble = { "stopped" }
    assert.equal(trouble, raised(store.close, store))
    assert.matches("use after close", raised(topic.latest, topic))
    assert.is_true(store:close())
    assert.equal("sediment.store (closed)", tostring(store))
  end)

  it("that talks nonsense does not, either", function()
    local path, time = support.path(), support.now
    local store = support.open(path, { clock = function() return time end })
    store:topic("t", {}):append("k", "v")
    time = "noon"
    raises("clock: a whole number of milliseconds expected, got string", function() store:close() end)
    assert.is_true(store:close())
    assert.equal("k=v", support.words(support.open(path):topic("t"):records()))
    time = 1.5
    raises("clock: a whole number of milliseconds expected, got 1.5", function()
      sediment.open(path, { clock = function() return time end })
    end)
  end)

  it("is not asked by what does not depend on the time", function()
    local trouble
    local topic, store = support.topic({}, { clock = function() assert(not trouble, "asked") return support.now end })
    topic:append("k", "v")
    trouble = true
    assert.same({ 0, 1, 1 }, { topic:earliest(), topic:latest(), topic:partitions() })
    assert.equal("k=v", support.words(topic:records()))
    assert.equal("k=v", support.words(topic:records { from = { time = 5 } }))
    assert.equal(0, topic:offset_for_time(5))
    assert.equal(1, #topic:segments())
    assert.same({ "t" }, store:topics())
    assert(topic:config() and topic:describe())
    trouble = false
  end)

  it("may close the store under the call", function()
    local store, closing
    store = support.open(nil, { clock = function()
      if closing then closing = false store:close() end
      return support.now
    end })
    local topic = store:topic("t", {})
    closing = true
    assert.matches("use after close", raised(topic.append, topic, "k", "v"))
  end)
end)

-- Every config of a topic and every option of a store: default, what is taken and what is refused, units, sources, and that it is kept.
local sediment = require "sediment"
local support = require "support"

local raised = support.raised

local MAX_INT, FOREVER = 2147483647, math.maxinteger or 2 ^ 63
local DAY = 86400000

-- name, default, least, most
local NUMBERS = {
  { "segment.bytes", 1073741824, 14, MAX_INT }, { "segment.ms", 7 * DAY, 1, FOREVER }, { "segment.jitter.ms", 0, 0, FOREVER },
  { "segment.index.bytes", 10485760, 4, MAX_INT }, { "index.interval.bytes", 4096, 0, MAX_INT }, { "retention.ms", 7 * DAY, -1, FOREVER },
  { "file.delete.delay.ms", 60000, 0, FOREVER }, { "delete.retention.ms", DAY, 0, FOREVER },
  { "max.compaction.lag.ms", FOREVER, 1, FOREVER },
  { "min.compaction.lag.ms", 0, 0, FOREVER }, { "max.message.bytes", 1048588, 0, MAX_INT }, { "flush.messages", FOREVER, 1, FOREVER },
  { "message.timestamp.before.max.ms", FOREVER, 0, FOREVER }, { "message.timestamp.after.max.ms", 3600000, 0, FOREVER },
  { "flush.ms", FOREVER, 0, FOREVER }, { "retention.bytes", -1, nil, FOREVER }, { "compression.zstd.level", 3, -131072, 22 },
  { "compression.lz4.level", 9, 1, 17 }, { "policy.interval.ms", 3600000, 1, FOREVER }, { "compression.gzip.level", -1, -1, 9 },
}

local WORDS = {
  ["cleanup.policy"] = { "delete", { "delete", "compact", "compact,delete", "" } },
  ["message.timestamp.type"] = { "CreateTime", { "CreateTime", "LogAppendTime" } },
  ["compression.type"] = { "producer", { "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer" } },
}

describe("the configs of a topic", function()
  local topic, store, path

  before_each(function()
    path = support.path()
    store = support.open(path)
    assert(store:policy("p", "return { segment = function() end }"))
    topic = store:topic("t", {})
  end)
  after_each(support.cleanup)

  local function refused(name, value)
    local before = topic:config()[name]
    local err = raised(function() topic:alter { [name] = value } end)
    assert.equal("string", type(err))
    assert.is_truthy(err:find(name, 1, true), err)
    assert.equal(before, topic:config()[name])
    return err
  end

  it("are these, with these defaults", function()
    local expected = { ["min.cleanable.dirty.ratio"] = 0.5, preallocate = false }
    for _, n in ipairs(NUMBERS) do expected[n[1]] = n[2] end
    for name, w in pairs(WORDS) do expected[name] = w[1] end
    expected["policy.script"] = ""
    assert.same(expected, topic:config())
    for name, d in pairs(topic:describe()) do assert.same({ value = expected[name], source = "default" }, d) end
  end)

  for _, n in ipairs(NUMBERS) do
    local name, _, least, most = n[1], n[2], n[3], n[4]
    it(name .. " has its range", function()
      for _, value in ipairs { least or -5, most } do
        assert.is_true(topic:alter { [name] = value })
        assert.same({ value = value, source = "topic" }, topic:describe()[name])
      end
      if least then refused(name, least - 1) end
      if most == MAX_INT then refused(name, most + 1) end
      for _, bad in ipairs { 1.5, "", "x", "1.5", "12q", "1 s", "-", "1e3", true, 0 / 0 } do refused(name, bad) end
      assert.is_true(topic:alter({}, { name }))
      assert.equal("default", topic:describe()[name].source)
    end)
  end

  for name, w in pairs(WORDS) do
    it(name .. " is one of its words", function()
      for _, word in ipairs(w[2]) do
        assert.is_true(topic:alter { [name] = word })
        assert.same({ value = word, source = "topic" }, topic:describe()[name])
      end
      for _, bad in ipairs { "x", "Delete", "createtime", 1, true } do refused(name, bad) end
    end)
  end

  it("policy.script is a script in the store, or none", function()
    for _, name in ipairs { "p", "" } do
      assert.is_true(topic:alter { policy_script = name })
      assert.same({ value = name, source = "topic" }, topic:describe()["policy.script"])
    end
    for _, bad in ipairs { "a.lua", "a/b", " ", ("x"):rep(64), 1, true } do refused("policy.script", bad) end
    assert.equal("not_found", (select(3, topic:alter { policy_script = "x" })))
  end)

  it("cleanup.policy is a list in any order", function()
    for _, given in ipairs { "delete,compact", "compact, delete", " compact , delete " } do
      assert.is_true(topic:alter { cleanup_policy = given })
      assert.equal("compact,delete", topic:config()["cleanup.policy"])
    end
    for _, bad in ipairs { "compact,", ",delete", "compact delete", "compact;delete", "compacted" } do refused("cleanup.policy", bad) end
  end)

  it("min.cleanable.dirty.ratio is within 0 and 1", function()
    local name = "min.cleanable.dirty.ratio"
    for _, value in ipairs { 0, 0.25, 1 } do
      assert.is_true(topic:alter { [name] = value })
      assert.equal(value, topic:config()[name])
    end
    topic:alter { [name] = "0.75" }
    assert.equal(0.75, topic:config()[name])
    for _, bad in ipairs { -0.01, 1.01, "half", true, 0 / 0 } do refused(name, bad) end
  end)

  it("preallocate is true or false", function()
    for _, value in ipairs { true, false } do
      topic:alter { preallocate = value }
      assert.equal(value, topic:config().preallocate)
      topic:alter { preallocate = tostring(value) }
      assert.equal(value, topic:config().preallocate)
    end
    for _, bad in ipairs { 1, "yes", "" } do refused("preallocate", bad) end
  end)

  it("take units of their kind only", function()
    local times = { ["250ms"] = 250, ["30s"] = 30000, ["1.5m"] = 90000, ["2h"] = 7200000, ["7d"] = 7 * DAY, ["0.5d"] = DAY / 2 }
    for given, ms in pairs(times) do
      topic:alter { retention_ms = given }
      assert.equal(ms, topic:config()["retention.ms"])
      refused("retention.bytes", given)
    end
    local sizes = { ["5B"] = 5, ["64KB"] = 64000, ["64KiB"] = 65536, ["1.5MB"] = 1500000, ["512MiB"] = 536870912, ["3GB"] = 3000000000,
                    ["3GiB"] = 3221225472, ["2TB"] = 2000000000000, ["2TiB"] = 2199023255552 }
    for given, bytes in pairs(sizes) do
      topic:alter { retention_bytes = given }
      assert.equal(bytes, topic:config()["retention.bytes"])
      assert.matches(given, refused("retention.ms", given))
    end
    for _, bad in ipairs { "7D", "7 d", "1w", "1y", "1min", "1S" } do refused("retention.ms", bad) end
    for _, bad in ipairs { "1K", "1k", "1kb", "1MIB", "1Mb", "1PB" } do refused("segment.bytes", bad) end
    refused("flush.messages", "5s")
    topic:alter { retention_ms = "-1" }
    assert.equal(-1, topic:config()["retention.ms"])
  end)

  it("mean for ever where a time is too large to count", function()
    for _, given in ipairs { 2 ^ 63, 2 ^ 70, math.huge, "9223372036854775807", "99999999999999999999d" } do
      topic:alter { retention_ms = given }
      assert.equal(FOREVER, topic:config()["retention.ms"])
    end
  end)

  it("min.compaction.lag.ms is at most max.compaction.lag.ms", function()
    assert.is_true(topic:alter { min_compaction_lag_ms = 100, max_compaction_lag_ms = 100 })
    assert.matches("min.compaction.lag.ms", raised(function() topic:alter { min_compaction_lag_ms = 101 } end))
    assert.matches("max.compaction.lag.ms", raised(function() topic:alter { max_compaction_lag_ms = 99 } end))
    assert.same({ 100, 100 }, { topic:config()["min.compaction.lag.ms"], topic:config()["max.compaction.lag.ms"] })
  end)

  it("are taken all or none", function()
    raised(function() topic:alter { retention_ms = 5, segment_bytes = 1 } end)
    assert.equal("default", topic:describe()["retention.ms"].source)
    raised(function() topic:alter({ retention_ms = 5 }, { "no.such" }) end)
    assert.equal("default", topic:describe()["retention.ms"].source)
    raised(function() store:topic("u", { retention_ms = 5, segment_bytes = 1 }) end)
    assert.same({ "t" }, store:topics())
  end)

  it("are refused when given twice under two spellings", function()
    assert.matches("retention.ms", raised(function() topic:alter { retention_ms = 5, ["retention.ms"] = 5 } end))
  end)

  it("are not Kafka's broker settings", function()
    for _, name in ipairs { "log.retention.ms", "min.insync.replicas", "retention", "log.cleaner.threads" } do
      assert.is_truthy(raised(function() topic:alter { [name] = 1 } end):find(name, 1, true))
    end
  end)

  it("of an existing topic are altered by a config given anew", function()
    topic:alter { retention_ms = 5, segment_bytes = 5000 }
    local again = store:topic("t", { retention_ms = 6 })
    assert.same({ 6, 5000 }, { again:config()["retention.ms"], again:config()["segment.bytes"] })
    assert.equal(6, topic:config()["retention.ms"])
  end)

  it("set and reset in one call: what is set counts", function()
    topic:alter { retention_ms = 5 }
    assert.is_true(topic:alter({ retention_ms = 6 }, { "segment_ms" }))
    assert.equal(6, topic:config()["retention.ms"])
  end)

  it("live in the store", function()
    local given = { ["min.cleanable.dirty.ratio"] = 0.125, preallocate = true, partitions = 3 }
    for _, n in ipairs(NUMBERS) do given[n[1]] = n[1] == "min.compaction.lag.ms" and 7 or n[4] end
    given["segment.index.bytes"], given["segment.bytes"], given.preallocate = 4096, 65536, true
    for name, w in pairs(WORDS) do given[name] = w[2][#w[2] - 1] end
    store:topic("all", given)
    store:close()
    store = support.open(path)
    local described = store:topic("all"):describe()
    given.partitions = nil
    for name, value in pairs(given) do assert.same({ value = value, source = "topic" }, described[name], name) end
    assert.equal(0, store:topic("all"):latest(2))
  end)

  it("come from the store's defaults until the topic has its own", function()
    store:close()
    store = support.open(path, { defaults = { retention_ms = "1h", ["cleanup.policy"] = "compact" } })
    topic = store:topic "t"
    assert.same({ value = 3600000, source = "store" }, topic:describe()["retention.ms"])
    assert.equal("invalid_record", select(3, topic:append(nil, "v")))
    topic:alter { cleanup_policy = "delete" }
    assert(topic:append(nil, "v"))
    store:close()
    topic = support.open(path):topic "t"
    assert.same({ value = 7 * DAY, source = "default" }, topic:describe()["retention.ms"])
    assert.same({ value = "delete", source = "topic" }, topic:describe()["cleanup.policy"])
  end)

  it("are not set and reset at once", function()
    topic:alter { retention_ms = 1000 }
    assert.matches("retention.ms", raised(function() topic:alter({ retention_ms = 5, flush_ms = 5 }, { "retention.ms" }) end))
    assert.equal(1000, topic:config()["retention.ms"])
    assert.equal("default", topic:describe()["flush.ms"].source)
  end)

  it("take effect at once", function()
    topic:append("a", "1")
    topic:append("a", "2")
    topic:roll()
    support.now = support.now + 10
    topic:append("a", "3")
    topic:alter { retention_ms = 5 }
    assert.equal(1, topic:retain().segments)
    topic:alter { max_message_bytes = 70 }
    assert.equal("too_large", select(3, topic:append("key", "value")))
    topic:alter({}, { "max.message.bytes" })
    assert(topic:append("key", "value"))
  end)
end)

describe("the options of a store", function()
  after_each(support.cleanup)

  local function opens(options) return support.open(nil, { options = options }) end

  it("are Kafka's broker settings", function()
    assert(opens { ["log.cleaner.dedupe.buffer.size"] = "128MiB", ["log.cleaner.threads"] = 2, ["log.cleaner.backoff.ms"] = "15s",
                   ["log.cleaner.io.max.bytes.per.second"] = "10MB", ["log.retention.check.interval.ms"] = "5m",
                   ["log.cleaner.enable"] = true, ["log.cleaner.io.buffer.size"] = 524288, ["log.cleaner.io.buffer.load.factor"] = 0.9,
                   ["log.flush.scheduler.interval.ms"] = 1000, ["log.flush.offset.checkpoint.interval.ms"] = 60000,
                   ["log.initial.task.delay.ms"] = 0, ["linger.ms"] = 5, ["batch.size"] = 65536 })
    assert(opens { log_cleaner_threads = 1 })
  end)

  it("are refused by name", function()
    local bad = { ["log.cleaner.threads"] = -1, ["log.retention.check.interval.ms"] = 0, ["log.cleaner.dedupe.buffer.size"] = 5,
                  ["log.cleaner.backoff.ms"] = "soon", ["batch.size"] = 65537, ["linger.ms"] = -1,
                  ["log.cleaner.io.buffer.load.factor"] = 1.5, ["log.cleaner.enable"] = "maybe", ["retention.ms"] = 5, ["log.dirs"] = "x" }
    for name, value in pairs(bad) do
      local err = raised(function() opens { [name] = value } end)
      assert.is_truthy(err:find(name, 1, true), err)
      assert.matches("%.lua:%d+: option", err)
    end
  end)

  it("that leave a cleaner's thread no room for a key are refused, all others clean", function()
    local function give(size, threads, load)
      return { ["log.cleaner.dedupe.buffer.size"] = size, ["log.cleaner.threads"] = threads, ["log.cleaner.io.buffer.load.factor"] = load }
    end
    for _, options in ipairs { give(47, 1, 0.9), give(95, 2, 0.9) } do
      assert.matches("option 'log.cleaner.dedupe.buffer.size'", raised(function() opens(options) end))
    end
    for _, options in ipairs { give(48, 1, 0.9), give(96, 2, 0.9), give(48, 1, 0.1), give("1MiB", 1, 0) } do
      local topic = assert(opens(options):topic("t", { cleanup_policy = "compact" }))
      for i = 1, 9 do topic:append("k" .. i % 3, i) end
      topic:roll()
      assert(topic:compact { force = true })
      assert.equal("k1=7 k2=8 k0=9", support.words(topic:records()))
    end
  end)

  it("leave nothing behind when they are refused", function()
    local path = support.path()
    raised(function() sediment.open(path, { options = { nonsense = 1 } }) end)
    raised(function() sediment.open(path, { defaults = { nonsense = 1 } }) end)
    raised(function() sediment.open(path, { defaults = { partitions = 2 } }) end)
    assert(support.open(path):topic("t", {}))
  end)

  it("given by two openings in one process must go together, as if one had given them", function()
    local path = support.path()
    local apart = { { defaults = { min_compaction_lag_ms = 1000 } }, { defaults = { max_compaction_lag_ms = 10 } } }
    local at_once = raised(function() sediment.open(path, { defaults = { min_compaction_lag_ms = 1000, max_compaction_lag_ms = 10 } }) end)
    local store = support.open(path, apart[1])
    local topic = store:topic("t", {})
    assert.equal(at_once:gsub("^.-: ", ""), (raised(function() support.open(path, apart[2]) end):gsub("^.-: ", "")))
    assert.equal("default", topic:describe()["max.compaction.lag.ms"].source)
    assert(topic:append("k", "v"))
    raised(function() support.open(path, { defaults = { retention_ms = 5 }, options = { nonsense = 1 } }) end)
    assert.equal("default", topic:describe()["retention.ms"].source)
    assert(store:topic("u", {}))
  end)
end)

-- Background cleaning as its options say, and partitions that cannot be cleaned.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("a partition that cannot be cleaned", function()
  after_each(support.cleanup)

  -- A damaged partition, and one beside it.
  local function open()
    local store = support.open()
    local topics = {}
    for _, name in ipairs { "bad", "good" } do
      local topic = store:topic(name, { cleanup_policy = "compact", min_cleanable_dirty_ratio = 0 })
      for i = 1, 3 do topic:append("a", "value " .. i) end
      topic:roll()
      topics[name] = topic
    end
    support.damaged()
    local file = topics.bad:segments()[1].path
    disk.write(file, (disk.read(file):gsub("value 1", "valve 1")))
    return store, topics, function() disk.write(file, (disk.read(file):gsub("valve 1", "value 1"))) end
  end

  local function stats(topic) return assert(topic:stats()).partitions[0] end

  it("says so in its stats, and keeps nobody from being cleaned", function()
    local store, topics = open()
    assert.is_nil(stats(topics.bad).uncleanable)
    assert.equal(-1, stats(topics.bad).cleaned_ms)
    local report = assert(store:maintain())
    assert.same({ 1, 1, 1, 0 }, { report.cleaned, report.corrupt, report.uncleanable, report.failed })
    assert.same({ "corrupt", -1 }, { stats(topics.bad).uncleanable, stats(topics.bad).cleaned_ms })
    assert.is_nil(stats(topics.good).uncleanable)
    assert.equal(support.now, stats(topics.good).cleaned_ms)
  end)

  it("is cleaned when it can be again", function()
    local store, topics, mend = open()
    assert(topics.bad:compact())
    assert.equal("corrupt", stats(topics.bad).uncleanable)
    mend()
    assert.same({ 2, 0 }, { store:maintain().cleaned, store:maintain().uncleanable })
    assert.is_nil(stats(topics.bad).uncleanable)
    assert.equal("a=value 3", support.words(topics.bad:records()))
  end)

  it("is begun with anew by those who open the store anew", function()
    local store, topics = open()
    assert(store:maintain())
    local path = topics.bad:segments()[1].path:match "^(.*)/bad%-0/"
    store:close()
    store = support.open(path)
    assert.is_nil(stats(store:topic "bad").uncleanable)
    assert.equal(1, store:maintain().uncleanable)
  end)

  it("is counted in the metrics", function()
    local store, topics = open()
    assert(store:maintain())
    local text = assert(store:metrics())
    local function value(series) return text:match("\n" .. series:gsub("%p", "%%%0") .. " (%S+)\n") end
    assert.equal("1", value 'sediment_uncleanable{topic="bad",partition="0"}')
    assert.equal("0", value 'sediment_uncleanable{topic="good",partition="0"}')
    assert.equal("1", value "sediment_uncleanable_partitions")
    assert.equal(tostring(stats(topics.bad).size), value "sediment_uncleanable_bytes")
    assert.equal(("%.0f"):format(support.now / 1000), value 'sediment_cleaned_timestamp_seconds{topic="good",partition="0"}')
    assert.is_nil(value 'sediment_cleaned_timestamp_seconds{topic="bad",partition="0"}')
  end)
end)

describe("metrics", function()
  after_each(support.cleanup)

  it("are Prometheus' text: each name with its help and type, then its series", function()
    local store = support.open()
    store:topic("a.b", { partitions = 2 }):append("k", "v", { partition = 1 })
    store:topic("c", {})
    local text, seen, current = assert(store:metrics()), {}, nil
    assert.equal("\n", text:sub(-1))
    for line in text:gmatch "[^\n]+" do
      local help = line:match "^# HELP (%S+) %S"
      local named, kind = line:match "^# TYPE (%S+) (%S+)$"
      local name, value = line:match "^([%a_]+)%S* (%S+)$"
      if help then
        assert.is_nil(seen[help])
        seen[help], current = "help", help
      elseif named then
        assert.same({ current, "help" }, { named, seen[named] })
        assert.truthy(kind == "gauge" or kind == "counter" and named:find "_total$")
        seen[named] = kind
      else
        assert.equal(current, name, line)
        assert.truthy(tonumber(value), line)
      end
    end
    assert.matches('\nsediment_log_end_offset{topic="a.b",partition="1"} 1\n', text, 1, true)
    assert.matches("\nsediment_partitions 3\n", text, 1, true)
    assert.matches("\nsediment_topics 2\n", text, 1, true)
  end)

  it("tell how far consumer groups are", function()
    local topic, store = support.topic { partitions = 2 }
    for i = 1, 10 do topic:append("k", "v", { partition = i % 2 }) end
    local c = assert(store:consumer { group = 'a "group"\\', topics = { "t" } })
    c:poll()
    c:commit { t = { [1] = 2 } }
    local text = assert(store:metrics())
    local labels = [[{group="a \"group\"\\",topic="t",partition="1"}]]
    assert.truthy(text:find("\nsediment_consumer_group_offset" .. labels .. " 2\n", 1, true))
    assert.truthy(text:find("\nsediment_consumer_group_lag" .. labels .. " 3\n", 1, true))
  end)

  it("write large numbers whole", function()
    local topic, store = support.topic()
    topic:append("k", "v", { timestamp = support.now })
    support.now = 1700000000123
    topic:alter { cleanup_policy = "compact" }
    topic:compact { force = true }
    assert.matches('sediment_cleaned_timestamp_seconds{topic="t",partition="0"} 1700000000.123', store:metrics(), 1, true)
  end)

  it("of a store that is closed, or of none, are refused", function()
    local store = support.open()
    local of = store.metrics
    assert.matches("bad argument #1 to 'metrics' %(sediment.store expected, got nil; call it with ':'%)", support.raised(of))
    store:close()
    assert.matches("spec/cleaner_spec.lua:%d+: use after close: the store is closed$", support.raised(function() of(store) end))
  end)
end)

describe("the background", function()
  after_each(support.cleanup)

  -- A store that looks for something to clean without pause.
  local function open(options)
    options["log.cleaner.backoff.ms"] = 1
    options["linger.ms"] = 1
    local store = assert(sediment.open(support.path(), { options = options }))
    finally(function() store:close() end)
    return store, assert(store:topic("t", { cleanup_policy = "compact", min_cleanable_dirty_ratio = 0 }))
  end

  -- Until it is so: what does not happen hangs the spec, and is told by its time limit.
  local function await(topic, so) while not so() do topic:wait(topic:latest(), 1) end end

  it("compacts on as many threads as it may", function()
    local store, topic = open { ["log.cleaner.threads"] = 4 }
    topic:alter { partitions = 6 }
    for p = 0, 5 do
      for i = 1, 3 do topic:append("a", i, { partition = p }) end
      topic:roll(p)
    end
    await(topic, function()
      local partitions, cleaned = store:stats().topics.t.partitions, 0
      for p = 0, 5 do cleaned = cleaned + (partitions[p].clean_offset == 3 and 1 or 0) end
      return cleaned == 6
    end)
    for p = 0, 5 do assert.equal("a=3", support.words(topic:records { partition = p })) end
  end)

  it("goes on with its other work while a compaction is slow, and closes in the middle of it", function()
    local store, topic = open { ["log.cleaner.io.max.bytes.per.second"] = 1 }
    local other = store:topic("other", {})
    for i = 1, 100 do topic:append("a", i) end
    topic:roll()
    local size = 0
    for _ = 1, 3 do                                       -- it looks for something to clean after each that it writes out
      other:append("k", "v")
      await(other, function() return #disk.read(other:segments()[1].path) > size end)
      size = #disk.read(other:segments()[1].path)
    end
    assert.equal(0, topic:stats().partitions[0].clean_offset)
    assert.equal(100, #support.collect(topic:records()))
  end)
end)

describe("log.cleaner.io.max.bytes.per.second", function()
  after_each(support.cleanup)

  it("changes nothing but the time that it takes", function()
    local topic = support.topic({ cleanup_policy = "compact" }, { options = { ["log.cleaner.io.max.bytes.per.second"] = "1MiB" } })
    for i = 1, 1000 do topic:append("k" .. i % 7, i) end
    topic:roll()
    local report = topic:compact { force = true }
    assert.same({ 1, 1000, 7 }, { report.partitions, report.records_read, report.records_written })
  end)

  it("is at least 1", function()
    local message = support.raised(sediment.open, support.path(), { options = { ["log.cleaner.io.max.bytes.per.second"] = 0 } })
    assert.matches("at least 1 is expected; log.cleaner.enable=false keeps the background from cleaning", message, 1, true)
  end)
end)

-- sediment apply: the difference between a file of topics and a store, shown and made.
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

describe("sediment apply", function()
  local directory, store

  before_each(function()
    directory = support.foreign():gsub("/$", "")
  end)
  after_each(support.cleanup)

  local function write(text) disk.write(directory .. "/topics.lua", text) end
  local function apply(...) return scripts.sediment(directory, "apply", "topics.lua", "--store", "store", ...) end
  local function open()
    store = support.open(directory .. "/store")
    return store
  end

  local function says(expected, ...)
    local said, complaint, status = apply(...)
    assert.same({ expected, "", 0 }, { said, complaint, status })
  end

  local TWO = [[
    return {
      prices = { partitions = 3, cleanup_policy = "compact", retention_ms = "7d" },
      visits = { segment_bytes = "1MiB", ["min.cleanable.dirty.ratio"] = 0.25 },
    }]]
  local MADE = "+ prices: 3 partitions, cleanup.policy compact, retention.ms 604800000\n" ..
    "+ visits: 1 partition, min.cleanable.dirty.ratio 0.25, segment.bytes 1048576\n"

  it("makes what is missing, the store as well, and then finds nothing to do", function()
    write(TWO)
    says(MADE .. "2 topics to be made\n", "--dry-run")
    assert.equal(1, disk.run("test -e '" .. directory .. "/store'"))
    says(MADE .. "2 topics made\n")
    says "nothing to change\n"
    says("nothing to change\n", "--delete", "--reset")
    assert.same({ "prices", "visits" }, open():topics())
    assert.equal(3, store:topic("prices"):partitions())
    assert.equal(1048576, store:topic("visits"):config()["segment.bytes"])
    assert.equal("default", store:topic("visits"):describe()["retention.ms"].source)
  end)

  it("changes what differs, and shows what it was and why", function()
    open():topic("prices", { partitions = 2, cleanup_policy = "compact", segment_bytes = 5000 })
    store:topic("visits", { segment_bytes = 1048576, min_cleanable_dirty_ratio = 0.25 })
    store:topic("old", {})
    write(TWO:gsub('"7d"', '"1d"') .. "")
    local difference = "~ prices: partitions 2 -> 3\n~ prices: retention.ms 604800000 (default) -> 86400000\n" ..
      "  prices: segment.bytes 5000 is not in the file\n  old is not in the file\n"
    says(difference .. "1 topic to be changed\n", "--dry-run")
    assert.equal(2, store:topic("prices"):partitions())
    says(difference .. "1 topic changed\n")
    assert.same({ 3, 86400000, 5000 }, { store:topic("prices"):partitions(), store:topic("prices"):config()["retention.ms"],
      store:topic("prices"):config()["segment.bytes"] })
    says "  prices: segment.bytes 5000 is not in the file\n  old is not in the file\nnothing to change\n"
  end)

  it("compares values as they work", function()
    open():topic("prices", { partitions = 3, cleanup_policy = "compact", retention_ms = 7 * 24 * 3600 * 1000 })
    write [[return { prices = { retention_ms = "168h", ["cleanup.policy"] = "compact", segment_bytes = "1GiB",
      flush_ms = "9223372036854775807", preallocate = false, min_cleanable_dirty_ratio = "0.5" } }]]
    says "nothing to change\n"
  end)

  it("deletes and resets what the file has not, when it is told to", function()
    open():topic("prices", { cleanup_policy = "compact", segment_bytes = 5000 })
    store:topic("old", {}):append("k", "v")
    store:consumer({ group = "g", topics = { "old" } }):commit { old = { [0] = 1 } }
    write 'return { prices = { cleanup_policy = "compact" } }'
    says("~ prices: segment.bytes 5000 -> the store's default\n- old\n1 topic changed, 1 topic deleted\n", "--delete", "--reset")
    assert.same({ "__consumer_offsets", "prices" }, store:topics())
    assert.equal("default", store:topic("prices"):describe()["segment.bytes"].source)
    says("nothing to change\n", "--delete", "--reset")
  end)

  it("refuses before it changes anything", function()
    open():topic("b", { partitions = 3 })
    local function refuses(text, expected)
      write(text)
      local said, complaint, status = apply()
      assert.same({ "", "sediment apply: " .. expected .. "\n", 1 }, { said, complaint, status })
      assert.same({ "b" }, store:topics())
    end
    refuses("return { a = {}, b = { partitions = 2 } }",
      "topic 'b' has 3 partitions, 2 are defined: partitions cannot be taken away; nothing was changed")
    refuses("return { a = {}, b = { retention = 5 } }",
      "topics.lua: topic 'b': config 'retention': there is no topic config of that name; did you mean 'retention.ms'?")
    refuses("return { a = {}, b = { min_compaction_lag_ms = 5, max_compaction_lag_ms = 4 } }",
      "topics.lua: topic 'b': config 'min.compaction.lag.ms': 5 is more than max.compaction.lag.ms, 4")
    refuses("return { a = {}, b = 1 }", "topics.lua: topic 'b': a table of configs expected, got number")
    refuses("return { a = {}, 'b' }", "topics.lua: names of topics are strings, got a number")
    refuses("return", "topics.lua: it returns a nil; a table expected")
    refuses("\nerror 'no'", "topics.lua:2: no")
    refuses("return { a = { partitions = 0 } }",
      "topics.lua: topic 'a': config 'partitions': 0 is outside [1, 100000]")
  end)

  it("tells which topic it failed at, and what was done before", function()
    open():topic("b", { max_compaction_lag_ms = 4 })
    write "return { a = {}, b = { min_compaction_lag_ms = 5 } }"
    local said, complaint, status = apply()
    assert.equal(1, status)
    assert.equal("+ a: 1 partition\n  b: max.compaction.lag.ms 4 is not in the file\n~ b: min.compaction.lag.ms 0 (default) -> 5\n", said)
    assert.matches("^sediment apply: topic 'b': .*5 is more than max.compaction.lag.ms, 4", complaint)
    assert.same({ "a", "b" }, store:topics())
  end)

  it("takes the topics of a script", function()
    write [[return { topics = { t = { retention_ms = "1d" } }, on_record = print }]]
    says "+ t: 1 partition, retention.ms 86400000\n1 topic made\n"
    write [[return { topics = { t = { retention_ms = "1d" }, "other" }, on_record = print, on_done = 1 }]]
    assert.equal(1, select(3, apply()))
  end)
end)

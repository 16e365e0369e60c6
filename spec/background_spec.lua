-- store:maintain() does at once what the background thread does at its intervals; and a store with that thread opens and closes in order.
local support = require "support"
local disk = require "disk"

describe("maintain", function()
  after_each(support.cleanup)

  it("reports numbers, all 0 when nothing is due", function()
    local _, store = support.topic { cleanup_policy = "compact,delete" }
    for name, value in pairs(assert(store:maintain())) do assert.equal(0, value, name) end
  end)

  it("rolls, cleans, deletes, unlinks and flushes in one call", function()
    local path = support.path()
    local store = support.open(path)
    local idle = store:topic("idle", { segment_ms = 1000 })
    local dirty = store:topic("dirty", { cleanup_policy = "compact", delete_retention_ms = 0, min_cleanable_dirty_ratio = 0 })
    local old = store:topic("old", { retention_ms = 500, file_delete_delay_ms = 0 })
    local waiting = store:topic("waiting", { flush_ms = 1000 })
    idle:append("a", "1")
    dirty:append("a", "1")
    dirty:append("a", nil)
    dirty:roll()
    old:append("a", "1")
    waiting:append("a", "1")
    assert.equal(0, waiting:stats().partitions[0].durable_offset)

    support.now = support.now + 1001
    local report = assert(store:maintain())
    assert.same({ 1, 1, 1, 1, 0 }, { report.rolled, report.cleaned, report.segments, report.flushed, report.failed })
    assert.equal(2, #idle:segments())
    assert.equal("a-", support.words(dirty:records()))
    assert.same({ 1, 1 }, { old:earliest(), old:latest() })
    assert.equal(1, waiting:stats().partitions[0].durable_offset)
    assert.equal(0, #disk.list(path .. "/old-0", ".deleted"))

    report = assert(store:maintain())
    assert.same({ 0, 1, 0, 0 }, { report.rolled, report.tombstones_removed, report.segments, report.flushed })
    assert.equal("", support.words(dirty:records()))
  end)

  it("writes the stages into their files", function()
    local topic, store = support.topic()
    topic:append("a", "1")
    assert.equal(0, #disk.read(topic:segments()[1].path))
    assert.equal(1, store:maintain().sealed)
    assert.equal(1, #disk.batches(disk.read(topic:segments()[1].path)))
    assert.equal(0, store:maintain().sealed)
  end)

  it("takes its time from now=", function()
    local topic, store = support.topic { retention_ms = 1000 }
    topic:append("a", "1")
    assert.equal(0, store:maintain({ now = support.now + 1000 }).segments)
    assert.equal(1, store:maintain({ now = support.now + 1001 }).segments)
  end)

  it("covers topics that this process has not opened", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", { retention_ms = 1000 }):append("a", "1")
    store:close()
    support.now = support.now + 1001
    store = support.open(path)
    assert.equal(1, store:maintain().segments)
  end)

  it("goes on with the others when one partition is damaged", function()
    local store = support.open()
    local bad = store:topic("bad", { cleanup_policy = "compact", min_cleanable_dirty_ratio = 0, retention_ms = 1000 })
    local good = store:topic("good", { cleanup_policy = "compact", min_cleanable_dirty_ratio = 0 })
    for _, topic in ipairs { bad, good } do
      for i = 1, 3 do topic:append("a", "value " .. i) end
      topic:roll()
    end
    local file = bad:segments()[1].path
    disk.write(file, (disk.read(file):gsub("value 1", "valve 1")))
    local report = assert(store:maintain())
    assert.same({ 1, 1 }, { report.cleaned, report.corrupt })
    assert.equal("a=value 3", support.words(good:records()))
    bad:alter { cleanup_policy = "compact,delete" }
    support.now = support.now + 1001
    assert.equal(1, store:maintain().segments)                -- retention goes on
  end)
end)

describe("a store with a background thread", function()
  after_each(support.cleanup)

  it("opens, works and closes, again and again", function()
    local path, n = support.path(), 0
    local options = { ["log.retention.check.interval.ms"] = 1, ["log.cleaner.backoff.ms"] = 0, ["log.initial.task.delay.ms"] = 0,
                      ["linger.ms"] = 0 }
    for _ = 1, 10 do
      local store = support.open(path, { background = true, options = options })
      local topic = store:topic("t", { cleanup_policy = "compact", segment_bytes = 1000 })
      for _ = 1, 200 do
        assert.equal(n, (topic:append("k" .. n % 5, tostring(n))))
        n = n + 1
      end
      local last = {}
      for _, key, value in topic:records() do last[key] = value end
      for k = 0, 4 do assert.equal(tostring(n - 5 + k), last["k" .. k]) end
      store:close()
    end
  end)
end)

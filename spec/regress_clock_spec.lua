-- A clock that steps back delays what goes by it by no more than its time from then on.
local support = require "support"
local disk = require "disk"

local YEARS = 10 * 365 * 86400000

describe("after the clock stepped back", function()
  after_each(support.cleanup)

  it("flush.ms counts from the new time", function()
    local topic, store = support.topic { flush_ms = 1000, retention_ms = -1 }
    local function durable() return topic:stats().partitions[0].durable_offset end
    topic:append("k", "v", { timestamp = support.now })
    support.now = support.now - 10 ^ 9
    assert.equal(0, store:maintain().flushed)
    assert.equal(0, durable())
    support.now = support.now + 999
    assert.equal(0, store:maintain().flushed)
    support.now = support.now + 1
    assert.equal(1, store:maintain().flushed)
    assert.equal(1, durable())
    support.now = support.now - 10 ^ 6                   -- nothing waits: nothing is due
    assert.equal(0, store:maintain().flushed)
    topic:append("k", "v", { timestamp = support.now })
    support.now = support.now + 1000
    assert.equal(1, store:maintain().flushed)
    assert.equal(2, durable())
  end)
end)

-- What was deleted while the clock ran ahead.
describe("after the clock was set right", function()
  local path, store

  before_each(function()
    path = support.path()
    store = support.open(path)
  end)
  after_each(support.cleanup)

  local function waiting(folder, part) return #disk.list(path .. folder, part) end

  it("segments that wait for their deletion go after file.delete.delay.ms", function()
    local config = { retention_ms = -1, retention_bytes = 0, segment_bytes = 1000, file_delete_delay_ms = 90000 }
    local topic = store:topic("t", config)
    support.now = support.now + YEARS
    for _ = 1, 30 do topic:append("k", ("v"):rep(100)) end
    assert(topic:retain().segments > 2)
    support.now = support.now - YEARS
    local count = waiting("/t-0", ".log.deleted")
    assert(count > 2)
    assert.equal(0, store:maintain().failed)
    support.now = support.now + 89999
    store:maintain()
    assert.equal(count, waiting("/t-0", ".log.deleted"))
    support.now = support.now + 1
    assert.equal(count, store:maintain().files_deleted)
    assert.equal(0, waiting("/t-0", ".deleted"))
    assert(topic:append("k", "new"))
  end)

  it("deleted topics go after theirs, whatever the store's is", function()
    for name, delay in pairs { short = 1000, long = 7 * 86400000 } do store:topic(name, { file_delete_delay_ms = delay }) end
    support.now = support.now + YEARS
    for _, name in ipairs { "short", "long" } do assert(store:delete_topic(name)) end
    support.now = support.now - YEARS
    store:maintain()
    assert.equal(2, waiting("", "-delete"))
    support.now = support.now + 999
    store:maintain()
    assert.equal(2, waiting("", "-delete"))
    support.now = support.now + 1
    store:maintain()
    assert.equal(1, waiting("", "-delete"))
    support.now = support.now + 7 * 86400000 - 1001
    store:maintain()
    assert.equal(1, waiting("", "-delete"))
    support.now = support.now + 1
    store:maintain()
    assert.equal(0, waiting("", "-delete"))
  end)

  it("a topic that was deleted under the right one waits as long as ever", function()
    store:topic("long", { file_delete_delay_ms = 7 * 86400000 })
    assert(store:delete_topic "long")
    support.now = support.now + 7 * 86400000 - 1
    store:maintain()
    assert.equal(1, waiting("", "-delete"))
    support.now = support.now + 1
    store:maintain()
    assert.equal(0, waiting("", "-delete"))
  end)
end)

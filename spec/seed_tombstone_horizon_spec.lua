-- A tombstone outlives every cleaning before delete.retention.ms is over, counted from the one that saw it first; then its key is gone.
local support = require "support"

local RETENTION = 86400000

describe("a tombstone", function()
  after_each(support.cleanup)

  it("stays until its horizon and takes its key along", function()
    local topic = support.topic { cleanup_policy = "compact", delete_retention_ms = RETENTION }
    for _, r in ipairs { { "A", "1" }, { "B", "2" }, { "A", "3" }, { "C", "4" }, { "A", nil } } do topic:append(r[1], r[2]) end
    topic:roll()
    assert(topic:compact { force = true })
    local list = support.collect(topic:records())
    assert.same({ 1, 3, 4 }, { list[1].offset, list[2].offset, list[3].offset })
    assert.equal("B=2 C=4 A-", support.words(topic:records()))

    local cleaned = support.now
    for i = 1, 5 do                                           -- any number of cleanings, also ones with new data
      support.now = cleaned + i * (RETENTION - 1) / 5 - (i * (RETENTION - 1) / 5) % 1
      topic:append("D", tostring(i), { timestamp = support.now })
      topic:roll()
      assert(topic:compact { force = true })
      assert.matches("^B=2 C=4 A%-", support.words(topic:records()))
    end
    assert.equal(-1, topic:stats().partitions[0].purge_floor)

    support.now = cleaned + RETENTION
    assert.equal(1, topic:compact({ force = true }).tombstones_removed)
    assert.equal("B=2 C=4 D=5", support.words(topic:records()))
    assert.equal(4, topic:stats().partitions[0].purge_floor)
    assert.equal(0, topic:compact({ force = true }).tombstones_removed)
  end)

  it("goes without new data, too", function()
    local topic, store = support.topic { cleanup_policy = "compact", delete_retention_ms = "1h" }
    topic:append("A", "1")
    topic:append("A", nil)
    topic:append("B", "1")
    topic:roll()
    store:maintain()
    assert.equal("A- B=1", support.words(topic:records()))
    support.now = support.now + 3600000 - 1
    assert.equal(0, store:maintain().tombstones_removed)
    assert.equal("A- B=1", support.words(topic:records()))
    support.now = support.now + 1
    assert.equal(1, store:maintain().tombstones_removed)
    assert.equal("B=1", support.words(topic:records()))
  end)
end)

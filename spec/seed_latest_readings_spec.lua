-- Of each key the last value stays, at its own offset.
local support = require "support"

describe("compaction of sensor readings", function()
  after_each(support.cleanup)

  local function readings(append)
    local topic = support.topic { cleanup_policy = "compact" }
    append(topic, { { "ruang-1", "24.1" }, { "ruang-2", "21.0" }, { "ruang-1", "24.7" }, { "ruang-1", "24.3" }, { "ruang-2", "21.5" } })
    assert.equal(5, topic:latest())
    assert.equal(5, topic:roll())
    local report = topic:compact()
    assert.same({ 1, 5, 2, 0 }, { report.partitions, report.records_read, report.records_written, report.tombstones_removed })
    local list = support.collect(topic:records { from = 0 })
    assert.equal(2, #list)
    assert.same({ 3, "ruang-1", "24.3" }, { list[1].offset, list[1].key, list[1].value })
    assert.same({ 4, "ruang-2", "21.5" }, { list[2].offset, list[2].key, list[2].value })
    for from = 1, 3 do assert.equal("ruang-1=24.3 ruang-2=21.5", support.words(topic:records { from = from })) end
    assert.equal("ruang-2=21.5", support.words(topic:records { from = 4 }))
    assert.equal(0, topic:earliest())
    assert.equal(5, topic:latest())
  end

  it("leaves the last of each room, appended one by one", function()
    readings(function(topic, records)
      for i, r in ipairs(records) do assert.equal(i - 1, (topic:append(r[1], r[2]))) end
    end)
  end)

  it("leaves the last of each room, appended as a batch", function()
    readings(function(topic, records)
      local batch = {}
      for i, r in ipairs(records) do batch[i] = { key = r[1], value = r[2] } end
      assert.same({ 0, 4 }, { topic:append_batch(batch) })
    end)
  end)
end)

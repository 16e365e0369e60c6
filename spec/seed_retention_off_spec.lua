-- -1 and -1 keep everything.
local support = require "support"

describe("retention.ms=-1 and retention.bytes=-1", function()
  after_each(support.cleanup)

  it("keep everything", function()
    local topic, store = support.topic { retention_ms = -1, retention_bytes = -1, segment_bytes = 300, segment_ms = "1d" }
    for i = 1, 200 do topic:append("k" .. i % 7, "v" .. i, { timestamp = i }) end
    local before = #topic:segments()
    assert(before > 5)
    for _, later in ipairs { 0, 86400000, 100 * 365 * 86400000 } do
      local now = support.now + later
      assert.same({ segments = 0, bytes = 0 }, topic:retain { now = now })
      local report = store:maintain { now = now }
      assert.same({ 0, 0 }, { report.segments, report.bytes })
    end
    assert.equal(0, topic:earliest())
    local list = support.collect(topic:records())
    assert.equal(200, #list)
    for i, r in ipairs(list) do assert(r.offset == i - 1 and r.value == "v" .. i) end
  end)
end)

-- Under retention.bytes a busy partition keeps a shorter time than a quiet one.
local support = require "support"

describe("a busy and a quiet partition", function()
  after_each(support.cleanup)

  it("keep different spans of time in the same number of bytes", function()
    local topic = support.topic { partitions = 2, retention_bytes = 20000, segment_bytes = 4000, retention_ms = -1 }
    local begin, value = support.now, ("v"):rep(100)
    for second = 0, 999 do
      support.now = begin + second * 1000
      topic:append("k", value, { partition = 0 })
      if second % 10 == 0 then topic:append("k", value, { partition = 1 }) end
      if second % 50 == 0 then topic:retain() end
    end
    topic:retain()
    local oldest, count = {}, {}
    for p = 0, 1 do
      local list = support.collect(topic:records { partition = p })
      oldest[p], count[p] = list[1].timestamp, #list
      assert.equal(topic:earliest(p), list[1].offset)
    end
    assert.equal(begin, oldest[1])                            -- never had more than retention.bytes
    assert(oldest[0] > begin + 700000, "the busy one keeps minutes")
    assert(count[0] > count[1] and count[0] < 240)
    local size = topic:stats().partitions[0].size
    assert(size >= 20000 and size <= 24000)
  end)
end)

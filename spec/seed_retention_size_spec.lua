-- retention.bytes is what each partition keeps, give or take one segment.
local support = require "support"

local KEEP, SEGMENT = 1048576, 262144

describe("retention by size", function()
  after_each(support.cleanup)

  it("leaves each partition between retention.bytes and one segment more", function()
    local topic = support.topic { partitions = 3, retention_bytes = "1MiB", segment_bytes = SEGMENT, retention_ms = -1 }
    local value = ("v"):rep(1000)
    for i = 1, 12 * 1024 do topic:append(nil, value, { partition = i % 3 }) end
    local before = {}
    for p = 0, 2 do
      before[p] = topic:segments(p)
      assert(topic:stats().partitions[p].size > 4 * KEEP - SEGMENT)
      assert.equal(0, topic:earliest(p))
    end
    local gone = topic:retain()
    local segments, bytes = 0, 0
    for p = 0, 2 do
      local after, size = topic:segments(p), topic:stats().partitions[p].size
      assert(size >= KEEP and size <= KEEP + SEGMENT, "partition " .. p .. " has " .. size)
      -- What is left are the last ones, unchanged.
      local n = #before[p] - #after
      for i, s in ipairs(after) do assert.same(before[p][n + i], s) end
      for i = 1, n do segments, bytes = segments + 1, bytes + before[p][i].size end
      assert.equal(after[1].base_offset, topic:earliest(p))
      assert.equal(4096, topic:latest(p))
      local expected = topic:earliest(p)
      for offset in topic:records { partition = p } do
        assert(offset == expected)
        expected = expected + 1
      end
      assert.equal(4096, expected)
    end
    assert.same({ segments = segments, bytes = bytes }, gone)
    assert.same({ segments = 0, bytes = 0 }, topic:retain())
  end)

  it("never takes the active segment", function()
    local topic = support.topic { retention_bytes = 0, retention_ms = -1 }
    topic:append("k", "v")
    topic:roll()
    topic:append("k", "v")
    assert.equal(1, topic:retain().segments)
    assert.equal(0, topic:retain().segments)
    assert.equal(1, topic:earliest())
    assert.equal("k=v", support.words(topic:records()))
  end)
end)

-- A log is cleaned when its dirty ratio is above min.cleanable.dirty.ratio, and only then; never its active segment.
local support = require "support"

describe("the dirty ratio", function()
  after_each(support.cleanup)

  local function put(topic, first)
    local batch = {}
    for i = 0, 9 do batch[i + 1] = { key = "k" .. (first + i), value = "v", timestamp = support.now } end
    assert(topic:append_batch(batch))
    topic:roll()
  end

  it("must be above the limit", function()
    local topic, store = support.topic { cleanup_policy = "compact" }
    assert.equal(0.5, topic:config()["min.cleanable.dirty.ratio"])
    local function ratio() return topic:stats().partitions[0].dirty_ratio end
    assert.equal(0, ratio())
    put(topic, 10)
    assert.equal(1, ratio())
    assert.equal(1, topic:compact().partitions)
    assert.equal(0, ratio())

    put(topic, 10)                                            -- as many bytes as are clean
    assert.equal(0.5, ratio())
    assert.equal(0, topic:compact().partitions)
    assert.equal(0, store:maintain().cleaned)
    assert.equal(20, #support.collect(topic:records()))
    assert.same({ "clean", "dirty", "active" }, { topic:segments()[1].state, topic:segments()[2].state, topic:segments()[3].state })

    topic:append("k10", "one more")
    assert.equal(0.5, ratio())                                -- the active segment does not count
    topic:roll()
    assert(ratio() > 0.5)
    assert.equal(1, store:maintain().cleaned)
    assert.equal(0, ratio())
    assert.equal(10, #support.collect(topic:records()))
  end)

  it("below the limit leaves all as it is, unless forced", function()
    local topic = support.topic { cleanup_policy = "compact", min_cleanable_dirty_ratio = 1 }
    put(topic, 10)
    put(topic, 10)
    assert.equal(0, topic:compact().partitions)               -- 1.0 is not above 1.0
    assert.equal(20, #support.collect(topic:records()))
    assert.equal(1, topic:compact({ force = true }).partitions)
    assert.equal(10, #support.collect(topic:records()))
    assert.equal(0, topic:compact({ force = true }).partitions)
  end)

  it("of 0 means any dirty byte", function()
    local topic = support.topic { cleanup_policy = "compact", min_cleanable_dirty_ratio = 0 }
    for i = 0, 9 do put(topic, 100 + 10 * i) end
    assert.equal(1, topic:compact().partitions)
    assert.equal(0, topic:compact().partitions)
    topic:append("x", "y")
    topic:roll()
    assert.equal(1, topic:compact().partitions)
  end)

  it("never reaches the active segment: duplicates stay visible at the tail", function()
    local topic = support.topic { cleanup_policy = "compact" }
    for i = 1, 4 do topic:append("a", tostring(i)) end
    topic:roll()
    for i = 5, 7 do topic:append("a", tostring(i)) end
    assert.equal(1, topic:compact({ force = true }).partitions)
    assert.equal("a=4 a=5 a=6 a=7", support.words(topic:records()))
    topic:roll()
    assert.equal(1, topic:compact({ force = true }).partitions)
    assert.equal("a=7", support.words(topic:records()))
  end)
end)

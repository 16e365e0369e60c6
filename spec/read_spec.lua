-- Reading: where iteration begins and ends, over segments, gaps and the stage.
local support = require "support"

local raised = support.raised

describe("records", function()
  after_each(support.cleanup)

  local function offsets(topic, options)
    local list = {}
    for offset in topic:records(options) do list[#list + 1] = offset end
    return table.concat(list, " ")
  end

  it("cross segments and the stage", function()
    local topic = support.topic()
    for i = 0, 9 do
      topic:append("k", tostring(i))
      if i % 3 == 2 then topic:roll() end
    end
    assert.equal("0 1 2 3 4 5 6 7 8 9", offsets(topic))
    for from = 0, 10 do
      for to = from, 11 do
        local expected = {}
        for i = from, math.min(to, 10) - 1 do expected[#expected + 1] = i end
        assert.equal(table.concat(expected, " "), offsets(topic, { from = from, to = to }))
      end
    end
    assert.equal("", offsets(topic, { from = 5, to = 2 }))
  end)

  it("end at the log end as it was at the call", function()
    local topic = support.topic()
    topic:append("a", "1")
    topic:append("b", "1")
    local list = {}
    for offset in topic:records() do
      list[#list + 1] = offset
      topic:append("more", "1")
    end
    assert.same({ 0, 1 }, list)
    assert.equal(4, topic:latest())
  end)

  it("of an empty log are none", function()
    local topic = support.topic()
    assert.equal("", offsets(topic))
    assert.equal("", offsets(topic, { from = 0 }))
    assert.equal("", offsets(topic, { from = "latest" }))
    assert.equal("offset_out_of_range", raised(function() topic:records { from = 1 } end).code)
  end)

  it("begin in the middle of a batch", function()
    local topic = support.topic()
    local batch = {}
    for i = 1, 100 do batch[i] = { key = "k" .. i } end
    topic:append_batch(batch)
    topic:append_batch(batch)
    assert.equal("k51", select(2, topic:records { from = 50 }()))
    assert.equal("k1", select(2, topic:records { from = 100 }()))
    assert.equal(150, #support.collect(topic:records { from = 50 }))
    assert.equal("99 100", offsets(topic, { from = 99, to = 101 }))
  end)

  it("begin at the next one where cleaning left a gap", function()
    local topic = support.topic { cleanup_policy = "compact" }
    for i = 0, 9 do topic:append("k" .. i % 2, tostring(i)) end
    topic:roll()
    topic:compact { force = true }
    topic:append("k9", "10")
    for from = 0, 8 do assert.equal("8 9 10", offsets(topic, { from = from })) end
    assert.equal("9 10", offsets(topic, { from = 9 }))
    assert.equal("", offsets(topic, { from = 0, to = 8 }))
  end)

  it("begin at the log start after delete_records", function()
    local topic = support.topic()
    for i = 0, 9 do topic:append("k", tostring(i)) end
    assert.equal(4, topic:delete_records(4))
    assert.equal("4 5 6 7 8 9", offsets(topic))
    assert.equal("offset_out_of_range", raised(function() topic:records { from = 3 } end).code)
    assert.equal("4 5", offsets(topic, { from = 4, to = 6 }))
  end)

  it("end at once behind a log start that moved past the end asked for", function()
    local topic = support.topic()
    for i = 0, 9 do topic:append("k", tostring(i)) end
    topic:delete_records(8)
    assert.equal("", offsets(topic, { to = 5 }))
  end)

  it("of several partitions are apart", function()
    local topic = support.topic { partitions = 3 }
    for i = 0, 8 do topic:append("k", tostring(i), { partition = i % 3 }) end
    for p = 0, 2 do
      local list = support.collect(topic:records { partition = p })
      assert.same({ tostring(p), tostring(p + 3), tostring(p + 6) }, { list[1].value, list[2].value, list[3].value })
    end
  end)

  it("are found by offset in a large log, whatever the index interval", function()
    for _, interval in ipairs { 0, 100, 4096, 1000000 } do
      local topic = support.topic { index_interval_bytes = interval, segment_bytes = "100KB" }
      local n = 0
      for i = 1, 300 do
        local batch = {}
        for j = 1, 1 + i % 7 do batch[j] = { key = "k", value = ("v"):rep(100) .. n + j - 1 } end
        topic:append_batch(batch)
        n = n + #batch
      end
      for from = 0, n - 1, 37 do
        local offset, _, value = topic:records { from = from }()
        assert(offset == from and value == ("v"):rep(100) .. from, "interval " .. interval .. " offset " .. from)
      end
    end
  end)

  it("reach isolation uncommitted the same without transactions", function()
    local topic = support.topic()
    topic:append("a", "1")
    assert.equal("0", offsets(topic, { isolation = "uncommitted" }))
    assert.equal("0", offsets(topic, { isolation = "committed" }))
  end)
end)

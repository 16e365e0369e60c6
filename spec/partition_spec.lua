-- Bare partitions: a partition's folder without its store, read only, with the meanings of a topic's methods.
local sediment = require "sediment"
local support = require "support"

local raised = support.raised

describe("a bare partition", function()
  local partition, path

  before_each(function()
    path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 0, 4 do topic:append("k" .. i, "v", { timestamp = support.now + i }) end
    topic:roll()
    topic:append("k5", nil, { timestamp = support.now + 5, headers = { { "h" } } })
    assert(store:close())
    partition = assert(sediment.open_partition(path .. "/t-0"))
  end)
  after_each(function()
    partition:close()
    support.cleanup()
  end)

  it("is read as a topic is", function()
    assert.equal(0, partition:earliest())
    assert.equal(6, partition:latest())
    assert.equal(3, partition:offset_for_time(support.now + 3))
    assert.is_nil((partition:offset_for_time(support.now + 6)))
    assert.equal("k0=v k1=v k2=v k3=v k4=v k5-", support.words(partition:records()))
    assert.equal("k3=v k4=v", support.words(partition:records { from = { time = support.now + 3 }, to = 5, partition = 0 }))
    assert.same({ { "h" } }, support.collect(partition:records { from = 5 })[1].headers)
  end)

  it("tells about its segments", function()
    local segments = partition:segments()
    assert.equal(2, #segments)
    assert.equal(0, segments[1].base_offset)
    assert.equal(5, segments[1].records)
    assert.equal(5, segments[2].base_offset)
    assert.equal("active", segments[2].state)
    assert.matches("/t%-0/00000000000000000005%.log$", segments[2].path)
    assert.equal(6, partition:stats().partitions[0].log_end_offset)
  end)

  it("is number 0", function()
    assert.equal(6, partition:latest(0))
    for _, method in ipairs { "earliest", "latest", "segments" } do
      assert.equal("unknown_partition", select(3, partition[method](partition, 1)))
    end
    assert.equal("unknown_partition", raised(function() partition:records { partition = 1 } end).code)
    assert.equal("offset_out_of_range", raised(function() partition:records { from = 7 } end).code)
  end)

  it("closes, and takes its iterators along", function()
    local iterator = partition:records()
    iterator()
    assert.is_true(partition:close())
    assert.is_true(partition:close())
    assert.equal("sediment.partition (closed)", tostring(partition))
    for _, call in ipairs { function() partition:latest() end, function() partition:records() end, function() iterator() end } do
      assert.matches("partition_spec%.lua:%d+: use after close", raised(call))
    end
  end)

  it("outlives its handle in an iterator", function()
    local iterator = assert(sediment.open_partition(path .. "/t-0")):records()
    collectgarbage()
    collectgarbage()
    assert.equal("k0=v k1=v k2=v k3=v k4=v k5-", support.words(iterator))
  end)
end)

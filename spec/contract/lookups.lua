-- Where partitions begin and end, and what is at a time.
local contract = require "contract.store"
local support = require "support"

local fails, raised = contract.fails, support.raised

it("tell the bounds of each partition", function()
  local topic = contract.topic { partitions = 2 }
  for _ = 1, 3 do topic:append("k", "v", { partition = 1 }) end
  assert.same({ 0, 0, 0, 3 }, { topic:earliest(), topic:latest(), topic:earliest(1), topic:latest(1) })
  assert.equal(3, topic:flush(1))
  assert.same({ 0, 3 }, { topic:stats().partitions[1].log_start_offset, topic:stats().partitions[1].log_end_offset })
  for _, method in ipairs { "earliest", "latest" } do
    fails("unknown_partition", topic[method](topic, 2))
    fails("unknown_partition", topic[method](topic, -1))
    assert.matches("partition: a whole number within 2^53 expected", raised(topic[method], topic, "x"))
    assert.matches("call it with ':'", raised(topic[method]))
  end
end)

it("find the first record of a time or a later one", function()
  local topic = contract.topic { partitions = 2 }
  assert.equal(1, select("#", topic:offset_for_time(1)))
  assert.is_nil((topic:offset_for_time(1)))
  for _, ms in ipairs { 100, 900, -1, 300, 500 } do topic:append("k", "v", { timestamp = ms, partition = 1 }) end
  for ms, offset in pairs { [-5] = 0, [0] = 0, [1] = 0, [100] = 0, [101] = 1, [900] = 1 } do
    assert.equal(offset, (topic:offset_for_time(ms, 1)), ms)
  end
  assert.is_nil((topic:offset_for_time(901, 1)))
  topic:delete_records(2, 1)
  for ms, offset in pairs { [1] = 3, [300] = 3, [301] = 4 } do assert.equal(offset, (topic:offset_for_time(ms, 1)), ms) end
  assert.is_nil((topic:offset_for_time(501, 1)))
  fails("unknown_partition", topic:offset_for_time(1, 5))
  assert.matches("time: a whole number within 2^53 expected", raised(topic.offset_for_time, topic, "x"))
end)

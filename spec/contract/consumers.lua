-- Consumers: what they are given, where they begin and go on, commits.
local contract = require "contract.store"
local support = require "support"

local fails, raised, drain = contract.fails, support.raised, contract.drain

local function filled(partitions, n)
  local topic, store, name = contract.topic { partitions = partitions or 3 }
  for i = 1, n or 30 do topic:append("k" .. i, "v" .. i, { partition = i % (partitions or 3) }) end
  return topic, store, name
end

-- Without a group, and with one of its own.
local function each_kind(f)
  f(nil)
  f(contract.fresh "g")
end

it("give records with all that belongs to them, each once, in order in each partition", function()
  local topic, store, name = contract.topic { partitions = 2 }
  topic:append("k", "v", { partition = 1, timestamp = 12345, headers = { { "a", "b" } } })
  topic:append("gone", nil, { partition = 1, timestamp = 5 })
  for i = 0, 9 do topic:append("k", "v" .. i, { partition = 0 }) end
  each_kind(function(group)
    local consumer = assert(store:consumer { topics = { name }, group = group })
    local at = { [0] = 0, 0 }
    for _, r in ipairs(drain(consumer, 4)) do
      assert.equal(at[r.partition], r.offset)
      at[r.partition] = r.offset + 1
      if r.key == "gone" then assert.same({ topic = name, partition = 1, offset = 1, key = "gone", timestamp = 5 }, r) end
      if r.headers then
        assert.same({ topic = name, partition = 1, offset = 0, key = "k", value = "v", timestamp = 12345, headers = { { "a", "b" } } }, r)
      end
    end
    assert.same({ [0] = 10, 2 }, at)
    assert.same({}, consumer:poll())
    assert.same({}, consumer:poll { max = 0 })
    consumer:close()
  end)
end)

it("tell their name, and are closed more than once", function()
  local _, store, name = filled(1, 1)
  local consumer = assert(store:consumer { topics = { name } })
  assert.equal("sediment.consumer (no group)", tostring(consumer))
  assert.is_true(consumer:close())
  assert.is_true(consumer:close())
  assert.equal("sediment.consumer (closed)", tostring(consumer))
  assert.matches("use after close: the consumer is closed", raised(consumer.poll, consumer))
end)

it("read several topics", function()
  local _, store, one = filled(1, 2)
  local two = contract.fresh()
  assert(store:topic(two, {})):append("k", "v")
  each_kind(function(group)
    local consumer, seen = assert(store:consumer { topics = { one, two }, group = group }), {}
    for _, r in ipairs(drain(consumer)) do seen[r.topic] = (seen[r.topic] or 0) + 1 end
    assert.same({ [one] = 2, [two] = 1 }, seen)
    assert.same({ total = 0, topics = { [one] = { [0] = 0 }, [two] = { [0] = 0 } } }, consumer:lag())
    consumer:close()
  end)
end)

it("stand where they were put", function()
  local topic, store, name = filled()
  each_kind(function(group)
    local consumer = assert(store:consumer { topics = { name }, group = group })
    assert.equal(30, consumer:lag().total)
    assert.equal(30, #drain(consumer, 7))
    assert.equal(0, consumer:lag().total)
    assert.same({ [name] = { 0, 1, 2 } }, consumer:assignment())
    assert.equal(topic:latest(1), consumer:position(name, 1))
    assert.is_true(consumer:seek(name, 1, "earliest"))
    assert.equal(10, consumer:lag().topics[name][1])
    assert.equal(10, #drain(consumer))
    assert.is_true(consumer:seek(name, 1, 4))
    assert.equal(4, consumer:position(name, 1))
    assert.equal(4, assert(consumer:poll { max = 1 })[1].offset)
    assert.is_true(consumer:seek(name, 1, "latest"))
    assert.same({}, drain(consumer))
    assert.is_true(consumer:seek(name, 2, { time = 0 }))
    assert.equal(10, #drain(consumer))
    fails("unknown_partition", consumer:seek(name, 9, 0))
    fails("unknown_topic", consumer:position "nope")
    consumer:close()
  end)
end)

it("pause and resume", function()
  local _, store, name = filled()
  each_kind(function(group)
    local consumer = assert(store:consumer { topics = { name }, group = group })
    assert.is_true(consumer:pause(name, 1))
    assert.equal(20, #drain(consumer))
    assert.is_true(consumer:resume(name, 1))
    for _, record in ipairs(drain(consumer)) do assert.equal(1, record.partition) end
    assert.equal(10, consumer:position(name, 1))
    consumer:close()
  end)
end)

it("wait for what comes", function()
  local _, store, name = filled(2, 2)
  each_kind(function(group)
    local consumer = assert(store:consumer { topics = { name }, group = group })
    drain(consumer)
    assert.same({}, consumer:poll { timeout_ms = 50 })
    contract.start([[
      assert(store:topic(name)):append("late", "v", { partition = 1 })
      store:close()]], name)
    assert.equal("late", assert(consumer:poll { timeout_ms = 30000 })[1].key)
    consumer:close()
  end)
end)

it("are told that their topic was deleted, and close", function()
  local _, store, name = filled(2)
  local plain = assert(store:consumer { topics = { name } })
  local member = assert(store:consumer { topics = { name }, group = contract.fresh "g" })
  local silent = assert(store:consumer { topics = { name }, group = contract.fresh "g" })
  for _, consumer in ipairs { plain, member } do drain(consumer) end
  assert(contract.open():delete_topic(name))
  for _, consumer in ipairs { plain, member } do
    contract.await(function() return select(3, consumer:poll { timeout_ms = 500 }) == "unknown_topic" end)
  end
  for _, consumer in ipairs { plain, member, silent } do assert.is_true(consumer:close()) end
end)

describe("begin", function()
  it("at the log start", function()
    local _, store, name = filled(2)
    each_kind(function(group)
      local consumer = assert(store:consumer { topics = { name }, group = group, auto_offset_reset = "earliest" })
      assert.equal(0, consumer:position(name, 0))
      assert.equal(30, #drain(consumer))
      consumer:close()
    end)
  end)

  it("at the end", function()
    local topic, store, name = filled(2)
    each_kind(function(group)
      local consumer = assert(store:consumer { topics = { name }, group = group, auto_offset_reset = "latest" })
      assert.same({}, consumer:poll())
      assert.equal(topic:latest(0), consumer:position(name, 0))
      topic:append("new", "v", { partition = 0 })
      assert.equal("new", assert(consumer:poll { timeout_ms = 10000 })[1].key)
      consumer:close()
    end)
  end)

  it("nowhere, until a seek", function()
    local _, store, name = filled(2)
    each_kind(function(group)
      local consumer = assert(store:consumer { topics = { name }, group = group, auto_offset_reset = "none" })
      assert.matches("which has 0 to 15; seek to where it should go on", fails("offset_out_of_range", consumer:poll()))
      fails("offset_out_of_range", consumer:poll())
      for p = 0, 1 do assert.is_true(consumer:seek(name, p, "earliest")) end
      assert.equal(30, #drain(consumer))
      assert.is_true(consumer:seek(name, 0, 1000))
      assert.matches("offset 1000 is not within the log, which has 0 to 15", contract.await(function()
        local _, message, code = consumer:poll()
        return code == "offset_out_of_range" and message
      end))
      assert.is_true(consumer:seek(name, 0, 14))
      assert.equal(1, #drain(consumer))
      consumer:close()
    end)
  end)

  it("anew when retention was faster", function()
    local topic, store, name = filled(1, 10)
    local group = contract.fresh "g"
    local consumer = assert(store:consumer { topics = { name }, group = group })
    assert.is_true(consumer:commit { [name] = { [0] = 2 } })
    consumer:close()
    topic:delete_records(5)
    consumer = assert(store:consumer { topics = { name }, group = group })
    assert.equal(5, drain(consumer)[1].offset)
    consumer:close()
  end)
end)

describe("with a group", function()
  it("go on where it has committed", function()
    local topic, store, name = filled()
    local group = contract.fresh "g"
    local consumer = assert(store:consumer { topics = { name }, group = group })
    assert.equal("sediment.consumer (" .. group .. ")", tostring(consumer))
    local list = drain(consumer)
    assert.equal(30, #list)
    assert.is_nil((consumer:committed(name, 0)))
    assert.is_true(consumer:commit(list[1]))
    assert.equal(list[1].offset + 1, (consumer:committed(name, list[1].partition)))
    assert.is_true(consumer:commit())
    assert.same({ 10, "" }, { consumer:committed(name, 0) })
    assert.is_true(consumer:commit(nil, { sync = true }))
    assert.is_true(consumer:commit { [name] = { [1] = { offset = 2, metadata = "why" } } })
    assert.same({ 2, "why" }, { consumer:committed(name, 1) })
    assert.is_true(consumer:close())
    topic:append("k", "v", { partition = 2 })
    local second = assert(store:consumer { topics = { name }, group = group })
    assert.equal(2, second:position(name, 1))
    local count = { [0] = 0, 0, 0 }
    for _, record in ipairs(drain(second)) do count[record.partition] = count[record.partition] + 1 end
    assert.same({ [0] = 0, 8, 1 }, count)
    second:close()
  end)

  it("commit nothing by themselves, and each group its own", function()
    local _, store, name = filled(1, 3)
    local group = contract.fresh "g"
    for _ = 1, 2 do
      local consumer = assert(store:consumer { topics = { name }, group = group })
      assert.equal(3, #drain(consumer))
      consumer:close()
    end
    local other = assert(store:consumer { topics = { name }, group = contract.fresh "g" })
    drain(other)
    assert.is_true(other:commit())
    other:close()
    local consumer = assert(store:consumer { topics = { name }, group = group })
    assert.equal(3, #drain(consumer))
    consumer:close()
  end)

  it("commit as they iterate", function()
    local _, store, name = filled(1)
    local group, n = contract.fresh "g", 0
    local consumer = assert(store:consumer { topics = { name }, group = group })
    for _ in consumer:records { commit_every = 10 } do
      n = n + 1
      if n == 25 then break end
    end
    assert.equal(20, (consumer:committed(name)))
    consumer:close()
    n = 0
    consumer = assert(store:consumer { topics = { name }, group = group })
    for _ in consumer:records { commit_every = 3 } do n = n + 1 end
    assert.equal(10, n)
    assert.equal(30, (consumer:committed(name)))
    consumer:close()
  end)
end)

it("are told mistakes with the same words", function()
  local _, store, name = filled(1, 1)
  fails("unknown_topic", store:consumer { topics = { contract.fresh() } })
  if contract.has "skipping of damage" then assert(store:consumer { topics = { name }, on_corrupt = "skip" })
  else fails("unsupported", store:consumer { topics = { name }, on_corrupt = "skip" }) end
  local function refuses(what, f, ...) assert.matches(what, raised(f, ...)) end
  refuses("topics: table expected, got string", store.consumer, store, { topics = "x" })
  refuses("topics: a list of names expected", store.consumer, store, {})
  refuses("unknown option 'foo'", store.consumer, store, { topics = { name }, foo = 1 })
  refuses("auto_offset_reset: \"earliest\", \"latest\" or \"none\" expected", store.consumer, store,
    { topics = { name }, auto_offset_reset = "x" })
  refuses("group: a name expected", store.consumer, store, { topics = { name }, group = "" })
  local consumer = assert(store:consumer { topics = { name } })
  refuses("this consumer has no group", consumer.commit, consumer)
  refuses("commit_every: this consumer has no group", consumer.records, consumer, { commit_every = 1 })
  refuses("unknown option 'most'", consumer.poll, consumer, { most = 1 })
  refuses("topic: string expected", consumer.position, consumer)
  refuses("an offset, \"earliest\", \"latest\" or {time = ms} expected", consumer.seek, consumer, name, 0, "middle")
  refuses("call it with ':'", consumer.poll)
end)

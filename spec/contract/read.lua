-- records: where iteration begins and ends, following, waiting.
local contract = require "contract.store"
local support = require "support"

local fails, raised, words = contract.fails, support.raised, support.words

local function filled(n)
  local topic, store, name = contract.topic()
  for i = 0, n - 1 do topic:append("k" .. i, "v", { timestamp = 1000 + 10 * i }) end
  return topic, store, name
end

it("come from, to, and by time", function()
  local topic = filled(10)
  assert.equal("k3=v k4=v", words(topic:records { from = 3, to = 5 }))
  assert.equal("", words(topic:records { from = 5, to = 2 }))
  assert.equal("k8=v k9=v", words(topic:records { from = 8, to = 99 }))
  assert.equal("k8=v k9=v", words(topic:records { from = { time = 1071 } }))
  assert.equal("k3=v k4=v", words(topic:records { from = { time = 1025 }, to = 5 }))
  assert.equal("", words(topic:records { from = { time = 5000 } }))
  assert.equal("", words(topic:records { from = "latest" }))
  assert.equal(10, #support.collect(topic:records { from = "earliest" }))
  for _, isolation in ipairs { "committed", "uncommitted", "read_committed", "read_uncommitted" } do
    assert.equal(10, #support.collect(topic:records { isolation = isolation }))
  end
end)

it("end at the log end as it was at the call", function()
  local topic, n = filled(3), 0
  for _ in topic:records() do
    n = n + 1
    topic:append("more", "v")
  end
  assert.equal(3, n)
  assert.equal(6, topic:latest())
end)

it("of an empty log are none", function()
  local topic = contract.topic()
  assert.equal("", words(topic:records()))
  assert.equal("", words(topic:records { from = 0 }))
  assert.equal("", words(topic:records { from = "latest" }))
end)

it("of several partitions are apart", function()
  local topic = contract.topic { partitions = 3 }
  for i = 0, 8 do topic:append("k", tostring(i), { partition = i % 3 }) end
  for p = 0, 2 do assert.equal(("k=%d k=%d k=%d"):format(p, p + 3, p + 6), words(topic:records { partition = p })) end
end)

it("raise failures as objects", function()
  local topic = filled(2)
  local e = raised(topic.records, topic, { from = 99 })
  assert.equal("offset_out_of_range", e.code)
  assert.matches("offset 99 is outside the log, which begins at 0", tostring(e))
  assert.equal(tostring(e), e.message)
  assert.equal(e.message .. "!", e .. "!")
  assert.equal("unknown_partition", raised(topic.records, topic, { partition = 7 }).code)
  if contract.has "skipping of damage" then assert.equal(2, #support.collect(topic:records { on_corrupt = "skip" }))
  else assert.equal("unsupported", raised(topic.records, topic, { on_corrupt = "skip" }).code) end
end)

it("are asked for with the same words", function()
  local topic = contract.topic()
  local function refuses(what, options) assert.matches(what, raised(topic.records, topic, options)) end
  refuses("unknown option 'foo'", { foo = 1 })
  refuses("from", { from = "middle" })
  refuses("isolation", { isolation = "some" })
  refuses("timeout_ms: only with follow = true", { timeout_ms = 5 })
  refuses("follow: boolean expected", { follow = 1 })
end)

it("begin at the log start that delete_records has moved", function()
  local topic = filled(10)
  assert.equal(4, topic:delete_records(4))
  assert.equal(4, topic:delete_records(2))
  assert.same({ 4, 10 }, { topic:earliest(), topic:latest() })
  assert.equal("k4=v k5=v", words(topic:records { to = 6 }))
  assert.equal("", words(topic:records { to = 3 }))
  assert.equal("offset_out_of_range", raised(topic.records, topic, { from = 3 }).code)
  fails("offset_out_of_range", topic:delete_records(11))
  fails("offset_out_of_range", topic:delete_records(-1))
  fails("unknown_partition", topic:delete_records(1, 5))
  assert.equal(10, topic:delete_records(10))
  assert.equal("", words(topic:records()))
  assert.equal(10, (topic:append("k", "v")))
  local compacted = contract.topic { cleanup_policy = "compact" }
  compacted:append("k", "v")
  fails("policy", compacted:delete_records(1))
end)

it("follow, and end when nothing comes", function()
  local topic, got = contract.topic(), {}
  topic:append("a", "1")
  for _, key in topic:records { follow = true, timeout_ms = 300 } do
    got[#got + 1] = key
    if key == "a" then topic:append("b", "2") end
  end
  assert.equal("a b", table.concat(got, " "))
  local n = 0
  for _ in topic:records { follow = true, to = 2 } do n = n + 1 end
  assert.equal(2, n)
  local ready = topic:records { follow = true, timeout_ms = 0, from = "latest" }
  assert.is_nil(ready())
  topic:append("c", "3")
  assert.equal(2, contract.await(ready))
end)

it("follow what another process appends", function()
  local topic, _, name = contract.topic()
  contract.start([[
    local topic = assert(store:topic(name))
    for i = 1, 50 do assert(topic:append("k", tostring(i))) end
    store:close()]], name)
  local n = 0
  for _, _, value in topic:records { follow = true, timeout_ms = 30000, to = 50 } do
    n = n + 1
    assert.equal(tostring(n), value)
  end
  assert.equal(50, n)
end)

it("are waited for", function()
  local topic = contract.topic { partitions = 2 }
  assert.same({}, { topic:wait(0, 50) })
  topic:append("k", "v", { partition = 1 })
  assert.is_nil((topic:wait(0, 0)))
  assert.equal(1, topic:wait(0, 10000, 1))
  assert.equal(1, topic:wait(-1, nil, 1))
  fails("unknown_partition", topic:wait(0, 10, 9))
  assert.matches("timeout_ms: 0 or more expected, got %-1", raised(topic.wait, topic, 0, -1))
  assert.matches("offset: a whole number", raised(topic.wait, topic))
end)

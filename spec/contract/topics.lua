-- Topics: made, opened, listed, grown, deleted.
local contract = require "contract.store"
local support = require "support"

local fails, raised = contract.fails, support.raised

it("are made by a config, even an empty one", function()
  local store, name = contract.open(), contract.fresh()
  assert.matches(name, fails("unknown_topic", store:topic(name)), 1, true)
  local topic = assert(store:topic(name, {}))
  assert.equal("sediment.topic (" .. name .. ")", tostring(topic))
  assert(store:topic(name))
  assert(store:topic(name, {}))
  assert.equal(1, topic:partitions())
end)

it("are listed by name, in order", function()
  local store, mine = contract.open(), {}
  for _, first in ipairs { "b", "a", "c-1", "B", "a.b" } do
    local name = contract.fresh(first)
    assert(store:topic(name, {}))
    mine[name] = true
  end
  local listed = {}
  for _, name in ipairs(assert(store:topics())) do
    if mine[name] then listed[#listed + 1] = name:match "^[^-]*" end
  end
  assert.equal("B a a.b b c", table.concat(listed, " "))
end)

it("have Kafka's names", function()
  local store = contract.open()
  for _, name in ipairs { "", ".", "..", "a/b", "a b", "\195\164", ("x"):rep(250), "a\n", "a:b" } do
    assert.matches("name", raised(store.topic, store, name, {}))
  end
  assert.matches("name: string expected, got nil", raised(store.topic, store))
end)

it("grow, and never shrink", function()
  local topic, store, name = contract.topic { partitions = 2 }
  fails("unknown_partition", topic:latest(2))
  assert.is_true(topic:alter { partitions = 4 })
  assert.equal(4, topic:partitions())
  assert.same({ 0, 3 }, { topic:append("k", "v", { partition = 3 }) })
  assert.matches("4", fails("policy", topic:alter { partitions = 3 }))
  fails("policy", store:topic(name, { partitions = 1 }))
  assert(store:topic(name, { partitions = 5 }))
  assert.equal(0, topic:latest(4))
  for _, n in ipairs { 0, -1, 1.5, "many" } do
    assert.matches("partitions", raised(topic.alter, topic, { partitions = n }))
  end
end)

it("are shared by all their handles", function()
  local one, store, name = contract.topic()
  local two = assert(store:topic(name))
  one:append("a", "1")
  two:append("b", "1")
  assert.equal("a=1 b=1", support.words(one:records()))
  two:alter { retention_ms = 86400005 }
  assert.equal(86400005, one:config()["retention.ms"])
end)

it("answer unknown_topic when they are deleted", function()
  local topic, store, name = contract.topic()
  topic:append("k", "v")
  assert.is_true(store:delete_topic(name))
  local calls = {
    append = { "k", "v" }, append_batch = { { { key = "k" } } }, earliest = {}, latest = {}, offset_for_time = { 0 },
    delete_records = { 0 }, config = {}, describe = {}, alter = { { retention_ms = 5 } }, stats = {}, partitions = {},
    wait = { 0, 10 }, flush = {},
  }
  for method, arguments in pairs(calls) do
    local result, message, code = topic[method](topic, arguments[1], arguments[2])
    assert.same({ nil, "unknown_topic" }, { result, code }, method .. ": " .. tostring(message))
  end
  assert.equal("unknown_topic", raised(topic.records, topic).code)
  fails("unknown_topic", store:topic(name))
  fails("unknown_topic", store:table(name))
  fails("unknown_topic", store:consumer { topics = { name } })
  fails("unknown_topic", store:delete_topic(name))
  assert.is_true(store:delete_topic(name, { if_exists = true }))
end)

it("begin at 0 when they are made anew", function()
  local topic, store, name = contract.topic()
  topic:append("k", "old")
  assert(store:delete_topic(name))
  local again = assert(store:topic(name, { partitions = 2 }))
  assert.equal(2, again:partitions())
  assert.equal(0, (again:append("k", "new", { partition = 0 })))
  if contract.has "topics and handles that end together" then fails("unknown_topic", topic:append("k", "v"))
  else assert.equal(1, (topic:append("k", "newer", { partition = 0 }))) end
end)

it("raise use after close", function()
  local topic, store, name = contract.topic()
  local iterator = topic:records()
  assert.is_true(store:close())
  assert.is_true(store:close())
  for _, call in ipairs { function() store:topics() end, function() store:topic(name) end, function() topic:append("k", "v") end,
                          function() topic:records() end, function() topic:describe() end, function() topic:latest() end, iterator } do
    assert.matches("use after close: the store", raised(call))
  end
end)

it("are not written to by who opened the store to read", function()
  local _, _, name = contract.topic()
  local store = contract.open { readonly = true }
  local topic = assert(store:topic(name))
  fails("readonly", topic:append("k", "v"))
  fails("readonly", topic:append_batch { { key = "k" } })
  fails("readonly", topic:delete_records(0))
  fails("readonly", topic:alter { retention_ms = 86400000 })
  fails("readonly", store:topic(contract.fresh(), {}))
  fails("readonly", store:delete_topic(name))
  fails("readonly", store:consumer { topics = { name }, group = "g" })
  assert.equal(0, topic:latest())
  assert.equal(0, #contract.drain(assert(store:consumer { topics = { name } })))
end)

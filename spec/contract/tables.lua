-- State tables.
local contract = require "contract.store"
local support = require "support"
local state_spec = require "state"

local fails, raised = contract.fails, support.raised
local contents, listener, put = state_spec.contents, state_spec.listener, state_spec.put

local function compacted(partitions) return contract.topic { cleanup_policy = "compact", partitions = partitions } end

it("have the last value of every key, and follow", function()
  local topic, store, name = compacted()
  local options, heard = listener()
  put(topic, "a=1 b=1 c=1 a=2 b- d=1 d- d=2")
  local state = assert(store:table(name, options))
  assert.equal("a=2 c=1 d=2", contents(state))
  assert.equal("c:nil>1 a:nil>2 d:nil>2", heard())
  assert.same({ 3, 8, 0 }, { state:count(), state:offset(), state:update() })
  assert.same({ "2", nil }, { (state:get "a"), (state:get "b") })
  put(topic, "a=3 e=1 e=2 c- c- e=2")
  assert.equal(6, state:update())
  assert.equal("a:2>3 e:nil>1 e:1>2 c:1>nil", heard())
  assert.equal("a=3 d=2 e=2", contents(state))
  assert.equal(0, state:update())
  assert.is_true(state:close())
  assert.matches("use after close", raised(state.get, state, "a"))
end)

it("begin empty, and read all partitions", function()
  local topic, store, name = compacted(3)
  local state = assert(store:table(name))
  assert.same({ 0, 0 }, { state:count(), state:offset() })
  for i = 1, 30 do topic:append(i, "v" .. i) end
  assert.equal(30, state:update())
  assert.equal("v24", state:get(24))
  assert.equal(30, assert(store:table(name)):count())
end)

it("decode, and are indexed", function()
  local topic, store, name = compacted()
  put(topic, "a=1 b=2 c=1 skip=1")
  local state = assert(store:table(name, {
    decode = function(value, key) return key ~= "skip" and tonumber(value) or nil end,
    index = { by_value = function(value) return value end },
  }))
  local function keys(value)
    local list = {}
    for key in state:lookup("by_value", value) do list[#list + 1] = key end
    table.sort(list)
    return table.concat(list, " ")
  end
  assert.equal(3, state:count())
  assert.same({ "a c", "b", "" }, { keys(1), keys(2), keys(3) })
  put(topic, "a=3 c-")
  assert(state:update())
  assert.same({ "", "b", "a" }, { keys(1), keys(2), keys(3) })
end)

it("write, wait, and see what they wrote", function()
  local topic, store, name = compacted()
  local state = assert(store:table(name))
  assert.equal(0, (state:put("x", 1)))
  assert.equal("1", state:get "x")
  assert.equal(1, (state:delete "x"))
  assert.is_nil(state:get "x")
  assert.equal(0, state:update())
  assert.equal(0, state:wait(10))
  topic:append("y", "1")
  assert.equal(1, state:wait(10000))
  assert.equal("1", state:get "y")
end)

it("follow what another process appends", function()
  local _, store, name = compacted(2)
  local state = assert(store:table(name))
  contract.start([[
    local topic = assert(store:topic(name))
    for i = 1, 20 do assert(topic:append(i % 5, i)) end
    store:close()]], name)
  contract.await(function()
    assert(state:wait(1000))
    return state:get(0) == "20"
  end)
  assert.equal("0=20 1=16 2=17 3=18 4=19", contents(state))
end)

it("are refused", function()
  local _, store, name = compacted()
  fails("unknown_topic", store:table(contract.fresh()))
  if contract.has "snapshots" then assert(store:table(name, { snapshot = true }))
  else fails("unsupported", store:table(name, { snapshot = true })) end
  assert.matches("unknown option 'foo'", raised(store.table, store, name, { foo = 1 }))
  assert.matches("name: string expected, got nil", raised(store.table, store))
end)

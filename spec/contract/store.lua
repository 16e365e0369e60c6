-- The store that the specs of the contract are about: a fresh folder, or with SEDIMENT_CONTRACT=kafka://host:port a cluster.
local sediment = require "sediment"
local support = require "support"

local CLUSTER = os.getenv "SEDIMENT_CONTRACT"
local PATIENCE_S = 30

local contract = { kind = CLUSTER and "cluster" or "folder" }

-- What docs/kafka-cluster.md says that clusters have not, by name.
local FOLDERS_ALONE = {
  "timestamp 0", "batches whole", "small segments", "snapshots", "skipping of damage", "commits' times", "groups by their commits alone",
  "latest decided once", "members that need not poll", "topics and handles that end together",
}

local known = {}
for _, name in ipairs(FOLDERS_ALONE) do known[name] = true end

--- Whether this kind of store has it, which is one of the names above.
function contract.has(name)
  assert(known[name], name)
  return not CLUSTER
end

local location, stores, topics, made = nil, {}, {}, 0

--- Where the test's store is: what open, and --store, take.
function contract.location()
  location = location or CLUSTER or support.path()
  return location
end

--- Opens it, again and again if need be.
function contract.open(options)
  local given = CLUSTER and { timeout_ms = 15000 } or { background = false }
  for name, value in pairs(options or {}) do given[name] = value end
  local store = assert(sediment.open(contract.location(), given))
  stores[#stores + 1] = store
  return store
end

--- A name that no topic, and no group, has had; a topic of it is deleted behind the test.
function contract.fresh(what)
  made = made + 1
  local name = ("%s-%s-%d-%d"):format(what or "t", tostring(os.time()), math.random(10 ^ 6), made)
  topics[#topics + 1] = name
  return name
end

--- A name that somebody else has chosen: such a topic is not there when the test begins, and goes behind it.
function contract.claim(name)
  topics[#topics + 1] = name
  if CLUSTER then assert(contract.open():delete_topic(name, { if_exists = true })) end
end

--- A new topic, the store, and the topic's name.
function contract.topic(config, options)
  local store, name = contract.open(options), contract.fresh()
  return assert(store:topic(name, config or {})), store, name
end

-- What processes begin with. A cluster finds out that a member died when it has not been heard of for session.timeout.ms.
local PREAMBLE = [[
local location, name, more = ...
io.stdout:setvbuf "line"
local sediment = require "sediment"
local options = location:find "^kafka:" and { options = { ["session.timeout.ms"] = 6000 } } or { background = false }
local store = assert(sediment.open(location, options))
]]

--- Starts a Lua program that has `store`, `name` and `more`: a pipe with what it says, and its process's number.
function contract.start(text, name, more)
  return support.launch(support.foreign() .. "other.lua", PREAMBLE .. text, contract.location(), name, more or "")
end

--- What f answers first that is not nil, false or an empty table.
function contract.await(f)
  local until_s = os.time() + PATIENCE_S
  repeat
    local found = f()
    if found and not (type(found) == "table" and next(found) == nil) then return found end
  until os.time() > until_s
  error("it did not come", 2)
end

--- That a call failed with the code; its message.
function contract.fails(code, ...)
  local result, message, got = ...
  assert(result == nil and got == code and type(message) == "string", code .. " expected, got " .. tostring(got or result))
  return message
end

--- All that a consumer has, until it says that there is no more.
function contract.drain(consumer, max)
  local list = {}
  while true do
    local some = assert(consumer:poll { max = max })
    if #some == 0 then return list end
    for _, record in ipairs(some) do list[#list + 1] = record end
  end
end

function contract.cleanup()
  if CLUSTER and #topics > 0 then
    local store = assert(sediment.open(CLUSTER))
    local there = {}
    for _, name in ipairs(assert(store:topics())) do there[name] = true end
    for _, name in ipairs(topics) do
      if there[name] then assert(store:delete_topic(name, { if_exists = true })) end
    end
    store:close()
  end
  for _, store in ipairs(stores) do store:close() end
  location, stores, topics = nil, {}, {}
  support.cleanup()
end

return contract

-- What specs of state tables share.
local disk = require "disk"
local support = require "support"

local state = {}

--- "key=value" of each key, sorted, with blanks between.
function state.contents(of)
  local list = {}
  for key, value in of:pairs() do list[#list + 1] = key .. "=" .. tostring(value) end
  table.sort(list)
  return table.concat(list, " ")
end

--- Options with an on_change that writes down what it hears, and a function that tells it, "key:old>new" with blanks between, and
--- forgets it.
function state.listener(options)
  local heard = {}
  options = options or {}
  options.on_change = function(key, new, old) heard[#heard + 1] = key .. ":" .. tostring(old) .. ">" .. tostring(new) end
  return options, function()
    local text = table.concat(heard, " ")
    heard = {}
    return text
  end
end

--- Appends to a topic: "a=1" gives the key a the value 1, "a-" deletes it.
function state.put(topic, words)
  for word in words:gmatch "%S+" do
    local key, value = word:match "^(%w+)=(%w+)$"
    assert(topic:append(key or word:match "^%w+", value))
  end
end

state.CONFIG = { cleanup_policy = "compact", delete_retention_ms = 0, segment_bytes = 1048576 }

--- For before_each: a fresh store's path, the store, and its topic t, which is compacted.
function state.begin()
  local path = support.path()
  local store = support.open(path)
  return path, store, store:topic("t", state.CONFIG)
end

--- The store and the topic after a restart.
function state.reopen(path, store)
  assert(store:close())
  store = support.open(path)
  return store, store:topic "t"
end

--- A table of the topic t with a snapshot; options are added.
function state.open(store, options)
  local given = { snapshot = true }
  for name, value in pairs(options or {}) do given[name] = value end
  return assert(store:table("t", given))
end

--- Opens one, and closes it with its snapshot.
function state.leave(store, options)
  local closed, message = state.open(store, options):close()
  assert(closed and not message, message)
end

--- The names of the snapshots in a store's folder.
function state.snapshots(path) return disk.list(path, "sediment.table-") end

return state

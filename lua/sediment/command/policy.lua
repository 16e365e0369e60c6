-- sediment policy: the policy scripts that a store keeps (docs/policies.md).
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local policy = { summary = "List policy scripts, show, put or remove one." }

policy.description = [[
Policy scripts say what retention and compaction keep; a topic names one in its config policy.script. With FILE the script is checked and
put into the store as NAME, from its next retention and compaction on; without, it is printed.]]

function policy.define(command)
  command:argument("name", "The script's name in the store."):argname("NAME"):args "?"
  command:argument("file", "The Lua file to put there."):argname("FILE"):args "?"
  arguments.store(command)
  command:flag("--delete", "Remove the script. No topic may name it.")
end

-- Names of the topics that have each script.
local function users_of_all(store)
  local users = {}
  local names, message, code = store:topics()
  if not names then return nil, message, code end
  for _, name in ipairs(names) do
    local topic = store:topic(name)
    local config = topic and topic:config()                   -- else it was deleted just now
    local script = config and config["policy.script"] or ""
    users[script] = users[script] and users[script] .. " " .. name or name
  end
  return users
end

local function list(store)
  local names, users, message, code
  names, message, code = store:policies()
  if names then users, message, code = users_of_all(store) end
  if not users then return nil, message, code end
  local rows = { { "script", "topics" } }
  for _, name in ipairs(names) do rows[#rows + 1] = { name, users[name] or "" } end
  if #rows > 1 then text.print_rows(rows, {}) end
  return 0
end

local function show(store, name)
  local script, message, code = store:policy(name)
  if not script then return nil, message, code end
  io.stdout:write(script)
  return 0
end

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local script
  script, message = file:read "*a"
  file:close()
  return script, message and path .. ": " .. message
end

local function put(store, name, file)
  local script, message = read(file)
  if not script then return nil, message end
  local done, why, code = store:policy(name, script)
  if not done then return nil, why, code end
  return 0
end

local function remove(store, name)
  local done, message, code = store:policy(name, false)
  if not done then return nil, message, code end
  return 0
end

function policy.execute(given)
  if given.delete and (not given.name or given.file) then return nil, "--delete: it goes with NAME alone", "usage" end
  local changes = given.delete or given.file
  return stores.with(given, { readonly = not changes }, function(store)
    if not given.name then return list(store) end
    if given.delete then return remove(store, given.name) end
    if given.file then return put(store, given.name, given.file) end
    return show(store, given.name)
  end)
end

return policy

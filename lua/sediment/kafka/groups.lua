-- Consumer groups of a cluster, as store:groups and its like tell of them; described in sediment/types.lua.
local core = require "sediment.kafka.core"
local check = require "sediment.check"
local objects = require "sediment.kafka.objects"

local groups = {}

function groups.names(store)
  objects.store(store, "groups")
  local list, message, code = core.groups(store)
  if not list then return nil, message, code end
  table.sort(list)
  return list
end

local function check_name(method, name)
  if type(name) ~= "string" then check.refuse(method, 1, "name: string expected, got " .. type(name), 2) end
end

function groups.describe(store, name)
  objects.store(store, "group")
  check_name("group", name)
  local members, commits, dead = core.group(store, name)
  if not members then return nil, commits, dead end
  local offsets = {}
  for _, c in ipairs(commits) do
    local topic, p, offset, metadata = c[1], c[2], c[3], c[4]
    if offset >= 0 then
      offsets[topic] = offsets[topic] or {}
      offsets[topic][p] = { offset = offset, metadata = metadata }
    end
  end
  if dead and not next(offsets) then return nil, ("there is no group '%s'"):format(name), "not_found" end
  return { members = members, offsets = offsets }
end

function groups.delete(store, name)
  objects.store(store, "delete_group")
  check_name("delete_group", name)
  return core.delete_group(store, name)
end

return groups

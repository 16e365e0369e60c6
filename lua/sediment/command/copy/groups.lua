-- Consumer groups whose commits are carried over with a topic.
local compare = require "sediment.command.copy.compare"
local text = require "sediment.command.text"

local groups = {}

local function without_members(store, name, where)
  local known, message, code = store:group(name)
  if code == "not_found" then return { members = 0, offsets = {} } end
  if not known then return nil, message, code end
  if known.members == 0 then return known end
  return nil, ("group '%s' has %s in %s: its offsets can be carried over when they have ended"):format(
    name, text.count(known.members, "member"), where), "busy"
end

--- What each of these groups has committed of the source's topic: { name = { [p] = commit } }. nil, message, code; `busy`: one has members,
--- on either side.
function groups.look(names, source, target)
  local found = {}
  for _, name in ipairs(names) do
    local known, message, code = without_members(source.store, name, source.where)
    local there
    if known then there, message, code = without_members(target.store, name, target.where) end
    if not there then return nil, message, code end
    if not known.offsets[source.name] then
      return nil, ("group '%s' has committed nothing of '%s'"):format(name, source.name), "not_found"
    end
    found[name] = known.offsets[source.name]
  end
  return found
end

-- A list of { partition, offset, target's offset }, and what is to be committed.
local function translated(commits, partitions)
  local list, what = {}, {}
  for _, partition in ipairs(partitions) do
    local commit = commits[partition.p]
    if commit then
      local at, message, code = compare.translate(partition, commit.offset)
      if not at then return nil, message, code end
      list[#list + 1] = { partition.p, commit.offset, at }
      what[partition.p] = { offset = at, metadata = commit.metadata }
    end
  end
  return list, what
end

local function commit(target, name, what)
  local consumer, message, code = target.store:consumer { group = name, topics = { target.name } }
  if not consumer then return nil, message, code end
  local done
  done, message, code = consumer:commit({ [target.name] = what }, { sync = true })
  local closed, why, because = consumer:close()
  if not done then return nil, message, code end
  return closed, why, because
end

--- Commits them for the target: a list of { partition, offset of the source, offset of the target } for each name. nil, message, code.
function groups.carry(names, source, target, partitions)
  local found, message, code = groups.look(names, source, target)
  if not found then return nil, message, code end
  local carried = {}
  for _, name in ipairs(names) do
    local list, what, why = translated(found[name], partitions)
    if not list then return nil, ("group '%s': %s"):format(name, what), why end
    local done
    done, message, code = commit(target, name, what)
    if not done then return nil, ("group '%s': %s"):format(name, message), code end
    carried[name] = list
  end
  return carried
end

return groups

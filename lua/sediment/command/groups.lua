-- sediment groups: consumer groups, what they have committed, and how far they are behind.
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local groups = { summary = "List consumer groups, describe or delete one." }

function groups.define(command)
  command:argument("group", "The group to describe: its members, its commits, its lag."):argname("GROUP"):args "?"
  arguments.store(command)
  command:flag("--delete", "Forget what the group has committed. It may have no members.")
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Where a partition ends, and how far a commit is from there: from the log start, if that has passed it.
local function lag_of(store, topic_name, p, offset)
  local topic, message, code = store:topic(topic_name)
  if not topic then return nil, message, code end
  local start, log_end
  start, message, code = topic:earliest(p)
  if start then log_end, message, code = topic:latest(p) end
  if not log_end then return nil, message, code end
  return log_end, math.max(0, log_end - math.max(start, offset))
end

-- Calls f(topic, partition, commit, log end, lag) for each commit.
local function each_commit(store, group, f)
  for _, name in ipairs(sorted(group.offsets)) do
    for _, p in ipairs(sorted(group.offsets[name])) do
      local commit = group.offsets[name][p]
      local log_end, lag, code = lag_of(store, name, p, commit.offset)
      if not log_end then return nil, lag, code end
      f(name, p, commit, log_end, lag)
    end
  end
  return true
end

local function list(store)
  local names, message, code = store:groups()
  if not names then return nil, message, code end
  local rows = { { "group", "members", "lag" } }
  for _, name in ipairs(names) do
    local group, done
    group, message, code = store:group(name)
    if not group then return nil, message, code end
    local total = 0
    done, message, code = each_commit(store, group, function(_, _, _, _, lag) total = total + lag end)
    if not done then return nil, message, code end
    rows[#rows + 1] = { name, text.grouped(group.members), text.grouped(total) }
  end
  if #rows > 1 then text.print_rows(rows, { false, true, true }) end
  return 0
end

local function describe(store, name)
  local group, message, code = store:group(name)
  if not group then return nil, message, code end
  local rows = { { "topic", "partition", "committed", "log end", "lag", "at", "metadata" } }
  local done
  done, message, code = each_commit(store, group, function(topic, p, commit, log_end, lag)
    rows[#rows + 1] = { topic, ("%d"):format(p), text.grouped(commit.offset), text.grouped(log_end), text.grouped(lag),
                        text.time(commit.timestamp), commit.metadata or "" }
  end)
  if not done then return nil, message, code end
  print(text.count(group.members, "member"))
  if #rows > 1 then text.print_rows(rows, { false, true, true, true, true }) end
  return 0
end

function groups.execute(given)
  if given.delete and not given.group then return nil, "--delete: which group?", "usage" end
  return stores.with(given, {}, function(store)
    if not given.group then return list(store) end
    if not given.delete then return describe(store, given.group) end
    local done, message, code = store:delete_group(given.group)
    if not done then return nil, message, code end
    return 0
  end)
end

return groups

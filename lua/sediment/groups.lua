-- What is known of all consumer groups of a store, and the end of those that nobody uses any more.
--
-- Kafka's rule: what a group has committed expires offsets.retention.minutes after its last member has left. A member that is killed
-- leaves no note; so the first look that finds a group without members and without a note writes one, and the time runs from there.
local core = require "sediment.core"
local check = require "sediment.check"
local group = require "sediment.group"
local offsets = require "sediment.offsets"

local groups = {}

local MINUTE = 60 * 1000

-- Whether a commit is for the topic that has the name now. Those of topics that were deleted do not count; one from elsewhere may have a
-- name that no topic can have.
local function is_valid(store, name, commit, ids)
  if not core.check_topic_name(name) then return false end
  if ids[name] == nil then
    local topic, message, code = core.store.topic(store, name)
    if not topic and code ~= "unknown_topic" then return nil, message, code end
    ids[name] = topic and core.topic_id(topic) or false
  end
  return ids[name] and (not commit.topic_id or commit.topic_id == ids[name])
end

--- The groups with the commits that count, and those that do not beside them: { name = { topics=, stale=, empty_since= } }.
function groups.look(store)
  local found, message, code = offsets.all(store)
  if not found then return nil, message, code end
  local ids = {}
  for _, g in pairs(found) do
    local topics, stale = {}, {}
    for name, partitions in pairs(g.topics) do
      for p, commit in pairs(partitions) do
        local valid
        valid, message, code = is_valid(store, name, commit, ids)
        if valid == nil then return nil, message, code end
        local into = valid and topics or stale
        into[name] = into[name] or {}
        into[name][p] = commit
      end
    end
    g.topics, g.stale = topics, stale
  end
  return found
end

--- store:groups() -> {names}; described in sediment/types.lua.
function groups.names(store)
  check.store(store, "groups")
  local found, message, code = groups.look(store)
  if not found then return nil, message, code end
  local list = {}
  for name, g in pairs(found) do
    if next(g.topics) then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local function check_name(method, name)
  if type(name) ~= "string" then error(("bad argument #1 to '%s' (group: string expected, got %s)"):format(method, type(name)), 3) end
end

--- store:group(name) -> { members=, offsets= }
function groups.describe(store, name)
  check.store(store, "group")
  check_name("group", name)
  local found, message, code = groups.look(store)
  if not found then return nil, message, code end
  local members
  members, message, code = group.members(store, name)
  if not members and code ~= "readonly" then return nil, message, code end
  local commits = found[name] and found[name].topics or {}
  if (members or 0) == 0 and not next(commits) then return nil, ("there is no consumer group '%s'"):format(name), "not_found" end
  for _, partitions in pairs(commits) do
    for _, commit in pairs(partitions) do commit.topic_id = nil end
  end
  return { members = members, offsets = commits }
end

--- store:delete_group(name) -> true
function groups.delete(store, name)
  check.store(store, "delete_group")
  check_name("delete_group", name)
  return group.alone(store, name, function(members)
    if members > 0 then
      return nil, ("consumer group '%s' has %d members; it can be deleted when they have closed"):format(name, members), "busy"
    end
    local commits = offsets.of_group(store, name)
    local all, message, code = commits:all()
    if not all then return nil, message, code end
    if not next(all) then return nil, ("there is no consumer group '%s'"):format(name), "not_found" end
    return commits:forget()
  end)
end

-- ------------------------------------------------------------------------------------------------------------------------- expiry

local function count(topics)
  local n = 0
  for _, partitions in pairs(topics) do
    for _ in pairs(partitions) do n = n + 1 end
  end
  return n
end

-- Of a group without members, while nobody can join it: what was seen before that may have changed since. How many offsets went.
local function expire_commits(commits, now, keep_ms)
  local all, message, code = commits:all()
  if not all then return nil, message, code end
  if not next(all) then
    local done
    done, message, code = commits:forget()              -- what is left is the group's own record
    return done and 0, message, code
  end
  local since
  since, message, code = commits:empty_since()
  if message then return nil, message, code end
  local is_due, done = since and since + keep_ms <= now, true
  if not since then done, message, code = commits:note_empty(true, now)
  elseif is_due then done, message, code = commits:forget() end
  return done and (is_due and count(all) or 0), message, code
end

-- Whether anything may be due, by what was seen without the group's lock: most groups have nothing, and cost nothing.
local function may_be_due(g, now, keep_ms)
  return next(g.stale) or not next(g.topics) or not g.empty_since or g.empty_since + keep_ms <= now
end

-- How many offsets of one group went.
local function expire_group(store, name, g, now, keep_ms)
  if not may_be_due(g, now, keep_ms) then return 0 end
  return group.alone(store, name, function(members)
    if members > 0 and not next(g.stale) then return 0 end
    local commits = offsets.of_group(store, name)
    local done, message, code = commits:forget(g.stale)
    if not done then return nil, message, code end
    local gone, more = count(g.stale), 0
    if members == 0 then more, message, code = expire_commits(commits, now, keep_ms) end
    return more and gone + more, message, code
  end)
end

--- Takes back what is due at `now`: how many offsets. nil, message, code.
function groups.expire(store, now)
  local found, message, code = groups.look(store)
  if not found then return nil, message, code end
  local keep_ms, gone = core.option(store, "offsets.retention.minutes") * MINUTE, 0
  for name, g in pairs(found) do
    local n
    n, message, code = expire_group(store, name, g, now, keep_ms)
    if not n then return nil, message, code end
    gone = gone + n
  end
  return gone
end

--- The same, once in offsets.retention.check.interval.ms; what fails is left to the next time.
function groups.expire_now_and_then(store)
  local now, life = core.monotonic_ms(), core.life(store)
  if life.expired_ms and now - life.expired_ms < core.option(store, "offsets.retention.check.interval.ms") then return end
  life.expired_ms = now
  groups.expire(store, core.now(store))
end

--- store:maintain, which expires offsets as well.
function groups.maintaining(maintain)
  local function finish(store, options, report, ...)
    if not report then return report, ... end
    local gone, message = groups.expire(store, type(options) == "table" and options.now or core.now(store))
    report.offsets_expired = gone or 0
    if not gone then report.failed, report.reason = report.failed + 1, message end
    return report
  end
  return function(store, options)
    check.store(store, "maintain")
    return finish(store, options, check.relay_to(3, "maintain", pcall(maintain, store, options)))
  end
end

return groups

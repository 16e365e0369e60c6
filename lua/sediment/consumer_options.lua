-- What the methods of consumers take and say, here and on a Kafka cluster. What is wrong is raised at the caller of the method that asks.
local check = require "sediment.check"

local consumer_options = {}

-- ----------------------------------------------------------------------------------------------------------------------------- opening

local OPEN = { group = "string", topics = "table", auto_offset_reset = "string", isolation = "string", on_corrupt = "any" }
local RESETS = { earliest = true, latest = true, none = true }
local ISOLATIONS = { committed = false, read_committed = false, uncommitted = true, read_uncommitted = true }

local function check_topics(topics)
  if type(topics) ~= "table" or #topics == 0 then check.refuse("consumer", 1, "topics: a list of names expected", 3) end
  local list, seen = {}, {}
  for i, name in ipairs(topics) do
    if type(name) ~= "string" then check.refuse("consumer", 1, "topics: names expected, got " .. type(name), 3) end
    if not seen[name] then list[#list + 1] = name end
    seen[name] = i
  end
  return list
end

--- The options, checked: topics, group, reset, uncommitted, on_corrupt (false: damage fails).
function consumer_options.take(options)
  if type(options) ~= "table" then check.refuse("consumer", 1, "table of options expected, got " .. type(options), 2) end
  for name, value in pairs(options) do
    local is = OPEN[name]
    if not is then check.refuse("consumer", 1, check.unknown_option(name, OPEN), 2) end
    if is ~= "any" and type(value) ~= is then check.refuse("consumer", 1, name .. ": " .. is .. " expected, got " .. type(value), 2) end
  end
  local on_corrupt = options.on_corrupt or "fail"
  if options.group == "" then check.refuse("consumer", 1, "group: a name expected, got ''", 2) end
  if options.group and #options.group > 32767 then check.refuse("consumer", 1, "group: a name of at most 32767 bytes expected", 2) end
  local reset = options.auto_offset_reset or "earliest"
  if not RESETS[reset] then
    check.refuse("consumer", 1, "auto_offset_reset: \"earliest\", \"latest\" or \"none\" expected, got " .. check.shown(reset), 2)
  end
  if ISOLATIONS[options.isolation or "committed"] == nil then
    check.refuse("consumer", 1, "isolation: \"committed\" or \"uncommitted\" expected, got " .. check.shown(options.isolation), 2)
  end
  if type(on_corrupt) ~= "function" and on_corrupt ~= "fail" and on_corrupt ~= "skip" then
    check.refuse("consumer", 1, "on_corrupt: \"fail\", \"skip\" or a function expected, got " .. check.shown(on_corrupt), 2)
  end
  return {
    topics = check_topics(options.topics), group = options.group, reset = reset, uncommitted = ISOLATIONS[options.isolation or "committed"],
    on_corrupt = on_corrupt ~= "fail" and on_corrupt,
  }
end

-- ------------------------------------------------------------------------------------------------------------------------------ places

--- The number of a partition; 0 when it is left out.
function consumer_options.partition(method, topic, p)
  if type(topic) ~= "string" then check.refuse(method, 1, "topic: string expected, got " .. type(topic), 2) end
  if p ~= nil and not check.whole(p) then check.refuse(method, 2, "partition: a whole number expected, got " .. check.shown(p), 2) end
  return p or 0
end

--- Where a seek is to go.
function consumer_options.target(to)
  local is_time = type(to) == "table" and check.whole(to.time) and next(to, next(to)) == nil
  if to ~= "earliest" and to ~= "latest" and not is_time and not (check.whole(to) and to >= 0) then
    check.refuse("seek", 3, "an offset, \"earliest\", \"latest\" or {time = ms} expected, got " .. check.shown(to), 2)
  end
end

--- Why a place, { topic =, partition = }, cannot go on where it stands; offset nil: it stands nowhere.
function consumer_options.outside(place, offset, start, log_end)
  local what = offset and ("offset %.0f is not"):format(offset) or "nothing is committed, and auto_offset_reset is \"none\": no offset is"
  return ("%s-%d: %s within the log, which has %.0f to %.0f; seek to where it should go on"):format(
    place.topic, place.partition, what, start, log_end)
end

-- A record, as poll gives it.
local function is_record(what) return type(what.topic) == "string" and check.whole(what.partition) and check.whole(what.offset) end

local GIVEN = "a record, or {topic = {[partition] = offset}}, expected"

-- What stands in { topic = { [p] = offset or { offset =, metadata = } } }.
local function list_given(what, most)
  local list = {}
  for topic, partitions in pairs(what) do
    if type(topic) ~= "string" or type(partitions) ~= "table" then check.refuse("commit", 1, GIVEN, 2) end
    for p, offset in pairs(partitions) do
      local metadata = type(offset) == "table" and offset.metadata or nil
      if type(offset) == "table" then offset = offset.offset end
      local fits = check.whole(p) and check.whole(offset) and offset >= 0
      if not fits then check.refuse("commit", 1, topic .. ": [partition] = offset expected", 2) end
      if metadata ~= nil and (type(metadata) ~= "string" or #metadata > most) then
        check.refuse("commit", 1, ("metadata: a string of at most %d bytes expected"):format(most), 2)
      end
      list[#list + 1] = { topic = topic, partition = p, offset = offset, metadata = metadata }
    end
  end
  return list
end

--- What is to be committed: a list of { topic =, partition =, offset =, metadata = }. `most`: bytes of metadata.
function consumer_options.places(what, most)
  if type(what) ~= "table" then check.refuse("commit", 1, GIVEN .. ", got " .. type(what), 2) end
  if is_record(what) then return { { topic = what.topic, partition = what.partition, offset = what.offset + 1 } } end
  return list_given(what, most)
end

-- What is known of places, as { topic = { [partition] = ... } }.
local function under(out, topic)
  out[topic] = out[topic] or {}
  return out[topic]
end

--- The partitions of places, as consumer:assignment tells them.
function consumer_options.assignment(places)
  local out = {}
  for _, place in ipairs(places) do table.insert(under(out, place.topic), place.partition) end
  return out
end

--- How far places are behind, as consumer:lag tells it; `lag_of` gives it of one.
function consumer_options.lag(places, lag_of)
  local lag = { total = 0, topics = {} }
  for _, place in ipairs(places) do
    local n, message, code = lag_of(place)
    if not n then return nil, message, code end
    under(lag.topics, place.topic)[place.partition], lag.total = n, lag.total + n
  end
  return lag
end

-- -------------------------------------------------------------------------------------------------------------------------- iterating

-- Of partitions that are another member's by now, as `refresh` finds out, it is his affair.
local function commit_handled(commit, refresh)
  local done, message, code = commit()
  if code ~= "fenced" then return done, message, code end
  done, message, code = refresh()
  if done then done, message, code = commit() end
  return done or code == "fenced" or nil, message, code
end

local RECORDS = { follow = "boolean", timeout_ms = "count", commit_every = "count" }

--- The options of consumer:records: commit_every, and how long to wait at the end.
function consumer_options.iteration(options, has_group)
  options = check.options("records", 1, options, RECORDS, 1)
  local every = options.commit_every
  if every == 0 then check.refuse("records", 1, "commit_every: 1 or more expected, got 0", 2) end
  if every and not has_group then check.refuse("records", 1, "commit_every: this consumer has no group", 2) end
  return every, options.follow and (options.timeout_ms or 2 ^ 53) or 0
end

--- The iterator of consumer:records. Positions move record by record: when the body of the loop runs, what it has been given is all that
--- they have passed. Before it waits it commits what is open. `poll` gives one record, `commit` commits what has
--- been handled, `refresh` finds out which partitions are still this member's.
function consumer_options.iterator(every, timeout_ms, check_open, poll, commit, refresh)
  local open = 0                          -- records handled since the last commit
  local function commit_from(count)
    if not every or open < count then return end
    check.or_throw(commit_handled(commit, refresh))
    open = 0
  end
  return function()
    check_open()
    commit_from(every)
    local list = check.or_throw(poll(0))
    if not list[1] then
      commit_from(1)
      list = timeout_ms > 0 and check.or_throw(poll(timeout_ms)) or list
    end
    open = open + (list[1] and 1 or 0)
    return list[1]
  end
end

return consumer_options

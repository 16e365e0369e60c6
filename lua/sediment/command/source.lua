-- Where records come from: topics of a store, with or without a group, or one partition's folder. Both have the same methods, which answer
-- nil, message, code when they fail:
--
--   read(max, timeout_ms)   records as consumer:poll gives them, an empty list when there are none
--   seek(from)              "earliest", "latest", an offset or { time = ms }, of all its partitions; of a group it is committed
--   commit([handled])       all that was read, or { topic = { [p] = offset } }; true without a group
--   lag()                   how many offsets are ahead
--   note_end()              where the logs end now
--   is_done()               whether it has read up to there
--   close()
local sediment = require "sediment"

local source = {}

local function outside(topic, p, from, start, log_end)
  local message = "%s-%d: offset %.0f is not within the log, which has %.0f to %.0f"
  return nil, message:format(topic, p, from, start, log_end), "offset_out_of_range"
end

-- --------------------------------------------------------------------------------------------------------------------------- of a store

local Stored = {}
Stored.__index = Stored

-- Calls f(topic's name, partition) for each that is this consumer's, until one fails.
local function each(self, f)
  local held, message, code = self.consumer:assignment()
  if not held then return nil, message, code end
  for name, partitions in pairs(held) do
    for _, p in ipairs(partitions) do
      local done
      done, message, code = f(name, p)
      if not done then return nil, message, code end
    end
  end
  return true
end

--- Of topics of a store; `options` are those of store:consumer.
function source.of_store(store, options)
  local self = setmetatable({ topics = {}, ends = {}, group = options.group }, Stored)
  local message, code
  for _, name in ipairs(options.topics) do
    self.topics[name], message, code = store:topic(name)
    if not self.topics[name] then return nil, message, code end
  end
  self.consumer, message, code = store:consumer(options)
  if not self.consumer then return nil, message, code end
  return self
end

function Stored:read(max, timeout_ms) return self.consumer:poll { max = max, timeout_ms = timeout_ms } end

--- The headers of a record that was read, as the log has them; those that it has now, if the log does not have it any more.
function Stored:headers_of(record)
  local p, offset = record.partition, record.offset
  local found, headers = pcall(function()
    local range = { partition = p, from = offset, to = offset + 1, isolation = "uncommitted" }       -- decided when it was read
    return (select(5, self.topics[record.topic]:records(range)()))
  end)
  return found and headers or record.headers
end

function Stored:seek(from)
  local done, message, code = each(self, function(name, p)
    if type(from) == "number" then
      local start, log_end = self.topics[name]:earliest(p), self.topics[name]:latest(p)
      if start and log_end and (from < start or from > log_end) then return outside(name, p, from, start, log_end) end
    end
    return self.consumer:seek(name, p, from)
  end)
  if done then done, message, code = self:commit() end
  return done, message, code
end

-- Those of { topic = { [p] = offset } } that are this consumer's.
local function own(handled, held)
  local mine = {}
  for name, partitions in pairs(held) do
    for _, p in ipairs(partitions) do
      local offset = handled[name] and handled[name][p]
      if offset then
        mine[name] = mine[name] or {}
        mine[name][p] = offset
      end
    end
  end
  return mine
end

-- A partition that went to another member meanwhile is read again by that one, from the last commit; what is left is committed without it.
function Stored:commit(handled)
  if not self.group then return true end
  local done, message, code = self.consumer:commit(handled)
  if code ~= "fenced" then return done, message, code end
  local held
  held, message, code = self.consumer:assignment()
  if not held then return nil, message, code end
  done, message, code = self.consumer:commit(handled and own(handled, held))
  return done or code == "fenced" or nil, message, code
end

function Stored:lag()
  local lag, message, code = self.consumer:lag()
  if not lag then return nil, message, code end
  return lag.total
end

function Stored:note_end()
  for name, topic in pairs(self.topics) do
    local count, message, code = topic:partitions()
    if not count then return nil, message, code end
    self.ends[name] = {}
    for p = 0, count - 1 do
      self.ends[name][p], message, code = topic:latest(p)
      if not self.ends[name][p] then return nil, message, code end
    end
  end
  return true
end

-- Partitions that came later, and those that are now another member's, are not waited for.
function Stored:is_done()
  local all = true
  local done, message, code = each(self, function(name, p)
    local position, why, what = self.consumer:position(name, p)
    if not position and what ~= "fenced" then return nil, why, what end
    if position and position < (self.ends[name][p] or 0) then all = false end
    return true
  end)
  if not done then return nil, message, code end
  return all
end

function Stored:close() return self.consumer:close() end

-- -------------------------------------------------------------------------------------------------------------- of a partition's folder

local Bare = {}
Bare.__index = Bare

--- Of a folder. Its name, "prices-0", says what topic and partition the records are of.
function source.of_partition(dir, options)
  local partition, message, code = sediment.open_partition(dir)
  if not partition then return nil, message, code end
  local name = dir:gsub("/+$", ""):match "[^/]*$"
  local topic, number = name:match "^(.+)%-(%d+)$"
  local self = { partition = partition, topic = topic or name, number = tonumber(number or 0), options = options }
  self.start = partition:earliest()
  self.position = self.start
  return setmetatable(self, Bare)
end

local function records(self)
  local on_corrupt = self.options.on_corrupt
  return self.partition:records {
    from = self.position, isolation = self.options.isolation, follow = true, timeout_ms = 0,
    on_corrupt = type(on_corrupt) == "function" and function(...) on_corrupt(self.topic, self.number, ...) end or on_corrupt,
  }
end

local function take(self, list, max)
  self.next = self.next or records(self)
  while #list < max do
    local offset, key, value, timestamp, headers = self.next()
    if not offset then break end
    list[#list + 1] = { topic = self.topic, partition = self.number, offset = offset, key = key, value = value, timestamp = timestamp,
                        headers = headers }
    self.position = offset + 1
  end
end

-- What an iterator raises is told when nothing stands before it: the next call meets it again.
local function read_now(self, max)
  local list = {}
  local ok, raised = pcall(take, self, list, max)
  if ok then return list end
  self.next = nil
  if #list > 0 then return list end
  if type(raised) ~= "table" then error(raised, 0) end
  return nil, raised.message, raised.code
end

-- What may follow the last record and is none, a transaction's marker or what is not decided yet, is not worth another look: the wait is
-- for what comes behind the end that was there before the reading.
function Bare:read(max, timeout_ms)
  local log_end, message, code = self.partition:latest()
  if not log_end then return nil, message, code end
  local list
  list, message, code = read_now(self, max)
  if not list or #list > 0 or timeout_ms == 0 then return list, message, code end
  log_end, message, code = self.partition:wait(log_end, timeout_ms)
  if not log_end and message then return nil, message, code end
  return read_now(self, max)
end

function Bare:seek(from)
  local start, log_end = self.start, self.partition:latest()
  if from == "earliest" then from = start elseif from == "latest" then from = log_end
  elseif type(from) == "table" then
    local offset, message, code = self.partition:offset_for_time(from.time)
    if not offset and message then return nil, message, code end
    from = offset or log_end
  end
  if from < start or from > log_end then return outside(self.topic, self.number, from, start, log_end) end
  self.position, self.next = from, nil
  return true
end

function Bare.commit() return true end

function Bare:lag() return math.max(0, (self.partition:latest() or self.position) - self.position) end

function Bare:note_end()
  local message, code
  self.ending, message, code = self.partition:latest()
  return self.ending and true, message, code
end

function Bare:is_done() return self.position >= self.ending end
function Bare:close() return self.partition:close() end

return source

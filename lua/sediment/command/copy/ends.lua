-- The two ends of a copy: a topic of a store, here or on a cluster, or a partition's folder. Both have the same methods; iterators raise,
-- the others answer nil, message, code:
--
--   name, where             the topic's name; the store's path, for messages
--   count()                 how many partitions it has
--   numbers()               the partitions that are to be copied
--   earliest(p)             where a partition begins
--   latest(p, known)        where it ends: not before `known`
--   records(p, from, to)    those that are committed: offset, key, value, timestamp, headers
--   close()
local sediment = require "sediment"
local stores = require "sediment.command.stores"

local ends = {}

function ends.is_cluster(path) return path:find "^kafka://" ~= nil end

-- ------------------------------------------------------------------------------------------------------------------------- of a store

local Stored = {}
Stored.__index = Stored

-- Of a member that was killed a cluster is to learn soon: until then nobody else gets its partitions.
local MEMBER_MS = 6000

local function open_store(path, readonly, create)
  local options = { background = false, create = create, readonly = readonly }
  if ends.is_cluster(path) then options.options = { ["session.timeout.ms"] = MEMBER_MS } end
  return sediment.open(path, options)
end

function Stored:count() return self.topic:partitions() end

function Stored:numbers()
  local count, message, code = self.topic:partitions()
  if not count then return nil, message, code end
  local list = {}
  for p = 0, count - 1 do list[#list + 1] = p end
  return list
end

function Stored:earliest(p) return self.topic:earliest(p) end

-- A broker that has just come back, or has just become the leader, may take an older offset for the end, until it has looked closer.
local SETTLE_MS = 3000

function Stored:latest(p, known)
  local log_end, message, code = self.topic:latest(p)
  if not log_end or not known or log_end >= known or not self.is_cluster then return log_end, message, code end
  local waited
  waited, message, code = self.topic:wait(known - 1, SETTLE_MS, p)
  if not waited and message then return nil, message, code end
  return waited or log_end
end

--- The same when it is `known` to be there, and may be anywhere up to `most`: where it stays.
function Stored:settled(p, known, most)
  local log_end, message, code = self:latest(p, known)
  while log_end and log_end < most and self.is_cluster do
    local more
    more, message, code = self.topic:wait(log_end, SETTLE_MS, p)
    if not more and message then return nil, message, code end
    if not more then break end
    log_end = more
  end
  return log_end, message, code
end

function Stored:records(p, from, to) return self.topic:records { partition = p, from = from, to = to } end

--- The topic's own configs, by dotted names.
function Stored:configs()
  local described, message, code = self.topic:describe()
  if not described then return nil, message, code end
  local own = {}
  for name, config in pairs(described) do
    if config.source == "topic" then own[name] = config.value end
  end
  return own
end

function Stored:close() return self.store:close() end

local function stored(store, topic, name, where)
  return setmetatable({ store = store, topic = topic, name = name, where = where, is_cluster = ends.is_cluster(where) }, Stored)
end

-- ------------------------------------------------------------------------------------------------------------- of a partition's folder

local Bare = {}
Bare.__index = Bare

function Bare:count() return self.number + 1 end
function Bare:numbers() return { self.number } end
function Bare:earliest() return self.partition:earliest() end
function Bare:latest() return self.partition:latest() end
function Bare:records(_, from, to) return self.partition:records { from = from, to = to } end
function Bare:close() return self.partition:close() end

-- Nothing in a folder tells its topic's configs. The default would let go of what is older than a week as soon as it is copied.
function Bare.configs() return { ["retention.ms"] = -1 } end

local function open_folder(path, name)
  local last = path:gsub("/+$", ""):match "[^/]*$"
  local topic, number = last:match "^(.+)%-(%d+)$"
  if not topic then return nil, path .. ": the name of a partition's folder tells its number, as " .. name .. "-0 does", "usage" end
  if topic ~= name then return nil, ("%s is a partition of '%s', not of '%s'"):format(path, topic, name), "usage" end
  local partition, message, code = sediment.open_partition(path)
  if not partition then return nil, message, code end
  return setmetatable({ partition = partition, number = tonumber(number), name = name, where = path }, Bare)
end

-- --------------------------------------------------------------------------------------------------------------------------- opening

--- SOURCE. It is only read; `writable`: asking for the members of its groups takes a store that may write.
function ends.source(path, name, writable)
  if not ends.is_cluster(path) and not stores.exists(path .. "/sediment.topics") then
    if stores.exists(path) then return open_folder(path, name) end
    return nil, path .. ": there is neither a store nor a partition's folder", "not_found"
  end
  local store, message, code = open_store(path, not writable, false)
  if not store then return nil, message, code end
  local topic
  topic, message, code = store:topic(name)
  if topic then return stored(store, topic, name, path) end
  store:close()
  return nil, message, code
end

-- What of the source's configs the target can have; the others are told.
local function fitting(configs, path, tell)
  local read, given = stores.configs { store = path }, {}
  for name, value in pairs(configs) do
    local known = pcall(read, { [name] = value })
    -- Kafka has taken nothing below since 4.0, and would refuse the topic.
    if known and ends.is_cluster(path) and name == "segment.bytes" and value < 1048576 then known = false end
    if known then given[name] = value else tell(name, value) end
  end
  return given
end

local function make_topic(store, name, source, path, tell)
  local configs, message, code = source:configs()
  local count
  if configs then count, message, code = source:count() end
  if not count then return nil, message, code end
  local given = fitting(configs, path, tell)
  given.partitions = count
  return store:topic(name, given)
end

-- A record goes to the partition of its number.
local function check_count(topic, source, name)
  local has, message, code = topic:partitions()
  local wants
  if has then wants, message, code = source:count() end
  if not wants then return nil, message, code end
  if has >= wants then return true end
  return nil, ("topic '%s' of the target has %d partitions, the source has %d: a record keeps the number of its partition"):format(
    name, has, wants), "policy"
end

--- TARGET, whose topic is made when it is missing, as the source's is; `tell(config, value)` hears what it cannot have of that.
function ends.target(path, name, source, tell)
  local store, message, code = open_store(path, false, true)
  if not store then return nil, message, code end
  local topic, done
  topic, message, code = store:topic(name)
  if code == "unknown_topic" then topic, message, code = make_topic(store, name, source, path, tell) end
  if topic then done, message, code = check_count(topic, source, name) end
  if done then return stored(store, topic, name, path) end
  store:close()
  return nil, message, code
end

return ends

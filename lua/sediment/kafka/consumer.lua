-- Consumers of a cluster: the methods of sediment/consumer.lua over Kafka's group protocol; described in sediment/types.lua.
local core = require "sediment.kafka.core"
local check = require "sediment.check"
local consumer_options = require "sediment.consumer_options"
local objects = require "sediment.kafka.objects"
local Feed = require "sediment.kafka.feed"

local Consumer, methods = {}, {}
Consumer.__index = Consumer
Consumer.__name = "sediment.consumer"

local MAX_RECORDS, METADATA_MOST = 500, 4096     -- Kafka's max.poll.records and offset.metadata.max.bytes

local function check_self(self, method)
  if getmetatable(self) ~= Consumer then
    error("bad argument #1 to '" .. method .. "' (sediment.consumer expected, got " .. type(self) .. "; call it with ':')", 2)
  end
  if self.closed then error("use after close: the consumer is closed", 2) end
  if self.life.closed then error("use after close: the store is closed", 2) end
end

-- ------------------------------------------------------------------------------------------------------------------------------ polling

local POLL = { max = "count", timeout_ms = "count" }

function methods:poll(options)
  options = check.options("poll", 1, options, POLL)
  return self.feed:poll(options.max or MAX_RECORDS, options.timeout_ms or 0)
end

-- ---------------------------------------------------------------------------------------------------------------------------- commits

-- The positions that have moved since they were committed.
local function list_moved(self)
  local list = {}
  for _, place in ipairs(self.feed.places) do
    if place.position and place.position ~= place.committed then
      list[#list + 1] = { topic = place.topic, partition = place.partition, offset = place.position }
    end
  end
  return list
end

-- As the source takes it, when all of it is this consumer's.
local function own(self, list)
  local flat = {}
  for _, c in ipairs(list) do
    local place, message, code = self.feed:place(c.topic, c.partition)
    if not place then return nil, message, code end
    flat[#flat + 1], flat[#flat + 2], flat[#flat + 3], flat[#flat + 4] = c.topic, c.partition, c.offset, c.metadata or false
  end
  return flat
end

local function commit(self, list)
  if #list == 0 then return true end
  local flat, message, code = own(self, list)
  local done
  if flat then done, message, code = self.feed.source:commit(flat) end
  if not done then return nil, message, code end
  for _, c in ipairs(list) do
    local place = self.feed:place(c.topic, c.partition)
    if place then place.committed = c.offset end
  end
  return true
end

local COMMIT = { sync = "boolean" }

function methods:commit(what, options)
  if not self.feed.group then error("commit: this consumer has no group; give group= to store:consumer", 2) end
  check.options("commit", 2, options, COMMIT)
  return commit(self, what == nil and list_moved(self) or consumer_options.places(what, METADATA_MOST))
end

function methods:committed(topic, p)
  p = consumer_options.partition("committed", topic, p)
  if not self.feed.group then return nil end
  return self.feed.source:committed(topic, p)
end

-- -------------------------------------------------------------------------------------------------------------------------- positions

-- The place of a partition, as of now.
local function place_now(self, topic, p)
  local done, message, code = self.feed:serve()
  if not done then return nil, message, code end
  return self.feed:place(topic, p)
end

function methods:position(topic, p)
  local place, message, code = place_now(self, topic, consumer_options.partition("position", topic, p))
  if not place then return nil, message, code end
  return self.feed:position(place)
end

local function seek_target(self, place, to)
  if type(to) == "number" then return to end
  local start, log_end, code = self.feed:bounds(place.topic, place.partition)
  if not start then return nil, log_end, code end
  if to == "earliest" then return start end
  if to == "latest" then return log_end end
  local offset, message, why = self.feed:topic(place.topic):offset_for_time(to.time, place.partition)
  if not offset and message then return nil, message, why end
  return offset or log_end
end

function methods:seek(topic, p, to)
  p = consumer_options.partition("seek", topic, p)
  consumer_options.target(to)
  local place, message, code = place_now(self, topic, p)
  local offset
  if place then offset, message, code = seek_target(self, place, to) end
  if not offset then return nil, message, code end
  return self.feed:go(place, offset)
end

local function set_paused(self, topic, p, paused)
  local place, message, code = place_now(self, topic, p)
  if not place then return nil, message, code end
  return self.feed:pause(place, paused)
end

function methods:pause(topic, p) return set_paused(self, topic, consumer_options.partition("pause", topic, p), true) end
function methods:resume(topic, p) return set_paused(self, topic, consumer_options.partition("resume", topic, p), false) end

function methods:assignment()
  local done, message, code = self.feed:serve()
  if not done then return nil, message, code end
  return consumer_options.assignment(self.feed.places)
end

local function lag_of(self, place)
  local start, log_end, code = self.feed:bounds(place.topic, place.partition)
  if not start then return nil, log_end, code end
  local from = place.position
  if not from and self.feed.group then
    local committed, message, why = self.feed.source:committed(place.topic, place.partition)
    if not committed and message then return nil, message, why end
    from = committed
  end
  return math.max(0, log_end - math.max(from or start, start))
end

function methods:lag()
  local done, message, code = self.feed:serve()
  if not done then return nil, message, code end
  return consumer_options.lag(self.feed.places, function(place) return lag_of(self, place) end)
end

-- ------------------------------------------------------------------------------------------------------------------------- iterating

function methods:records(options)
  local every, timeout_ms = consumer_options.iteration(options, self.feed.group)
  return consumer_options.iterator(every, timeout_ms, function() check_self(self, "records") end,
    function(wait_ms) return self.feed:poll(1, wait_ms) end, function() return commit(self, list_moved(self)) end,
    function() return self.feed:serve() end)
end

-- ------------------------------------------------------------------------------------------------------------------- opening and closing

for name, f in pairs(methods) do
  Consumer[name] = objects.method(name, function(self, ...)
    check_self(self, name)
    return f(self, ...)
  end)
end

function Consumer:close()
  if getmetatable(self) ~= Consumer then check_self(self, "close") end
  if self.closed then return true end
  self.closed = true
  return self.feed:close()
end

Consumer.__close = Consumer.close

function Consumer:__tostring()
  return ("sediment.consumer (%s)"):format(self.closed and "closed" or self.feed.group or "no group")
end

--- store:consumer{...}
function Consumer.open(store, options)
  objects.store(store, "consumer")
  local given = consumer_options.take(options)
  if given.on_corrupt then
    return nil, "on_corrupt: what is damaged in a cluster's log is the brokers' affair; only \"fail\" is there", "unsupported"
  end
  local feed, message, code = Feed.open(store, given)
  if not feed then return nil, message, code end
  return setmetatable({ store = store, life = core.life(store), feed = feed, closed = false }, Consumer)
end

return { open = Consumer.open }

-- Topics of a cluster: making, describing and changing them; waiting.
local core = require "sediment.kafka.core"
local check = require "sediment.check"
local configs = require "sediment.kafka.configs"
local objects = require "sediment.kafka.objects"

local topics = {}

-- ------------------------------------------------------------------------------------------------------------------------------ configs

local function describe(topic)
  local described, message, code = core.describe(topic)
  if not described then return nil, message, code end
  return configs.understand(described)
end

--- topic:describe() and topic:config(); described in sediment/types.lua.
function topics.describe(topic)
  objects.topic(topic, "describe")
  return describe(topic)
end

function topics.config(topic)
  objects.topic(topic, "config")
  local described, message, code = describe(topic)
  if not described then return nil, message, code end
  local values = {}
  for name, config in pairs(described) do values[name] = config.value end
  return values
end

-- The topic's own configs as they are to be, as texts; whether that differs from what is.
local function merge(described, set, reset)
  local own, differs = {}, false
  for name, config in pairs(described) do
    if config.source == "topic" then own[name] = config.value end
  end
  for name, value in pairs(set) do
    differs = differs or own[name] ~= value
    own[name] = value
  end
  for _, name in ipairs(reset) do
    differs = differs or own[name] ~= nil
    own[name] = nil
  end
  return configs.texts(own), differs
end

local function refuse_growth(topic, count, partitions)
  return nil, ("topic '%s' has %d partitions: fewer, %d, cannot be made of them"):format(core.name(topic), count, partitions), "policy"
end

local function same(a, b)
  for name, value in pairs(a) do if b[name] ~= value then return false end end
  for name in pairs(b) do if a[name] == nil then return false end end
  return true
end

-- The controller has taken the change when it answers; the broker that is asked next may learn of it a moment later.
local function set_configs(topic, texts)
  local done, message, code = core.set_configs(topic, texts)
  if not done then return nil, message, code end
  local store, until_ms = core.store_of(topic), core.monotonic_ms() + core.timeout_ms(core.store_of(topic))
  while core.monotonic_ms() < until_ms do
    local described, why, what = describe(topic)
    if not described then return nil, why, what end
    if same(texts, (merge(described, {}, {}))) then return true end
    core.idle(store, 20)
  end
  return true
end

-- Kafka is given all configs of a topic at once, so what is there is read first: a change by somebody else in between is lost.
local function change(topic, set, reset, partitions)
  local described, message, code = describe(topic)
  local count = 0
  if described and partitions then count, message, code = topic:partitions() end
  if not described or not count then return nil, message, code end
  if partitions and partitions < count then return refuse_growth(topic, count, partitions) end
  local texts, differs = merge(described, set, reset)
  local done = true
  if differs then done, message, code = set_configs(topic, texts) end
  if done and partitions and partitions > count then done, message, code = topics.grow(topic, partitions) end
  return done, message, code
end

--- Gives a topic more partitions, and waits until they can be used.
function topics.grow(topic, partitions)
  local done, message, code = core.grow_topic(topic, partitions)
  if not done then return nil, message, code end
  local until_ms = core.monotonic_ms() + core.timeout_ms(core.store_of(topic))
  while true do
    local last, why, what = core.bounds(topic, partitions - 1)
    if last then return topic:partitions() and true end
    if what ~= "unknown_partition" or core.monotonic_ms() >= until_ms then return nil, why, what end
    core.idle(core.store_of(topic), 50)
  end
end

-- Raises at the caller of alter.
local function check_names(described, set, reset)
  for _, name in ipairs(reset) do
    if set[name] ~= nil then error(("config '%s': it is to be set and to go back to its default; one of them"):format(name), 3) end
    if not described[name] then error(("config '%s': there is no topic config of that name"):format(name), 3) end
  end
end

--- topic:alter{...} [, {names}]; described in sediment/types.lua.
function topics.alter(topic, config, names)
  objects.topic(topic, "alter")
  local set, partitions, replication = configs.take("alter", config)
  if replication then error("config 'replication': how many replicas a topic has is chosen when it is made", 2) end
  local reset = configs.names("alter", names)
  if #reset > 0 then
    local described, message, code = describe(topic)
    if not described then return nil, message, code end
    check_names(described, set, reset)
  end
  return change(topic, set, reset, partitions)
end

-- ------------------------------------------------------------------------------------------------------------------------------- opening

local function create(store, name, set, partitions, replication)
  local made, message, code = core.create_topic(store, name, partitions or 1, replication or -1, configs.texts(set))
  if not made and code ~= "exists" then return nil, message, code end
  local topic
  topic, message, code = core.topic_of(store, name, "fresh")
  return topic, message, code, made
end

--- store:topic(name [, config]); described in sediment/types.lua.
function topics.open(store, name, config)
  objects.store(store, "topic")
  if type(name) ~= "string" then check.refuse("topic", 1, "name: string expected, got " .. type(name), 1) end
  if config == nil then return core.topic_of(store, name) end
  local set, partitions, replication = configs.take("topic", config)
  local topic, message, code, made = core.topic_of(store, name, "quick")
  if code == "unknown_topic" then topic, message, code, made = create(store, name, set, partitions, replication) end
  if not topic then return nil, message, code end
  if made or not (partitions or next(set)) then return topic end
  local done
  done, message, code = change(topic, set, {}, partitions)
  return done and topic, message, code
end

-- ------------------------------------------------------------------------------------------------------------------------------- waiting

local LOOK_MS = 100

--- topic:wait(offset [, timeout_ms [, p]]); described in sediment/types.lua. It asks the partition's leader ten times a second.
function topics.wait(topic, offset, timeout_ms, p)
  objects.topic(topic, "wait")
  if not check.whole(offset) then check.refuse("wait", 1, "offset: a whole number expected, got " .. check.shown(offset), 1) end
  check.timeout("wait", 2, timeout_ms, 2)
  p = objects.partition("wait", 3, p)
  local store = core.store_of(topic)
  local until_ms = timeout_ms and core.monotonic_ms() + timeout_ms
  while true do
    local start, log_end, code = core.bounds(topic, p)
    if not start then return nil, log_end, code end
    if log_end > offset then return log_end end
    local left = until_ms and until_ms - core.monotonic_ms() or LOOK_MS
    if left <= 0 then return nil end
    core.idle(store, math.min(left, LOOK_MS))
  end
end

-- ------------------------------------------------------------------------------------------------------------------------------ numbers

local function stats_of(topic)
  local count, message, code = topic:partitions()
  if not count then return nil, message, code end
  local partitions = {}
  for p = 0, count - 1 do
    local start, log_end, what = core.bounds(topic, p)
    if not start then return nil, log_end, what end
    partitions[p] = { log_start_offset = start, log_end_offset = log_end }
  end
  return { partitions = partitions }
end

--- topic:stats(): where the partitions begin and end. The rest is the brokers' affair.
function topics.stats(topic)
  objects.topic(topic, "stats")
  return stats_of(topic)
end

--- store:stats()
function topics.all_stats(store)
  objects.store(store, "stats")
  local names, message, code = store:topics()
  if not names then return nil, message, code end
  local all = {}
  for _, name in ipairs(names) do
    local topic, why, what = core.topic_of(store, name)
    if topic then all[name], why, what = stats_of(topic) end
    if not all[name] and what ~= "unknown_topic" then return nil, why, what end
  end
  return { topics = all }
end

return topics

--- A Kafka cluster as a store: what sediment.open "kafka://host:port" gives. The same methods as a store in a folder, over librdkafka.
--- docs/kafka-cluster.md tells call by call what is the same and what is not.
local core = require "sediment.kafka.core"
local ours = require "sediment.core"
local append_async = require "sediment.kafka.append_async"
local consumer = require "sediment.kafka.consumer"
local groups = require "sediment.kafka.groups"
local pending = require "sediment.pending"
local objects = require "sediment.kafka.objects"
local open_options = require "sediment.kafka.options"
local state_table = require "sediment.kafka.table"
local topics = require "sediment.kafka.topics"

if core._VERSION ~= ours._VERSION then
  error("sediment.kafka: its C module is version " .. tostring(core._VERSION) .. ", sediment's is " .. tostring(ours._VERSION))
end

local TIMEOUT_MS = 30000

local method, unsupported = objects.method, objects.unsupported

for name, f in pairs { describe = topics.describe, config = topics.config, alter = topics.alter, wait = topics.wait,
                       stats = topics.stats } do
  core.topic[name] = method(name, f)
end
core.topic.append_async, core.topic.flush = append_async.append, pending.flushing(core.life, core.topic.flush, core.timeout_ms)
core.store.close = pending.closing(core.life, core.store.close, core.timeout_ms, append_async.give_up)
core.topic.roll = unsupported("topic", "roll", "when a segment is rolled is the brokers' affair (segment.ms, segment.bytes)")
core.topic.retain = unsupported("topic", "retain", "brokers do it, every log.retention.check.interval.ms")
core.topic.compact = unsupported("topic", "compact", "brokers do it, when min.cleanable.dirty.ratio or max.compaction.lag.ms says so")
core.topic.segments = unsupported("topic", "segments", "files are the brokers' affair")

local function of_store(name, f)
  return method(name, function(store, ...)
    objects.store(store, name)
    return f(store, ...)
  end)
end
core.store.pending, core.store.deliver = of_store("pending", append_async.pending), of_store("deliver", append_async.deliver)

for name, f in pairs { topic = topics.open, stats = topics.all_stats, groups = groups.names, group = groups.describe,
                       delete_group = groups.delete, consumer = consumer.open, table = state_table.open } do
  core.store[name] = method(name, f)
end
core.store.maintain = unsupported("store", "maintain", "brokers do what is due by themselves")
core.store.policy = unsupported("store", "policy", "what is kept of a topic is the brokers' affair")
core.store.policies = unsupported("store", "policies", "what is kept of a topic is the brokers' affair")
core.store.import = unsupported("store", "import", "files are the brokers' affair")
core.store.backup = unsupported("store", "backup", "files are the brokers' affair")
core.store.verify = unsupported("store", "verify", "files are the brokers' affair; what is read is checked as it comes")
core.store.metrics = unsupported("store", "metrics", "brokers have their own; store:stats() and consumer:lag() have the offsets")

--- sediment.open of a path that begins with kafka://
---@param path string kafka://host:port[,host:port...]
---@param options? sediment.open_options
---@return sediment.store? store
---@return string? message
---@return sediment.code? code `unavailable`, `timeout`, `unauthorized`, `unsupported`
local function open(path, options)
  local servers = open_options.servers(path)
  local settings, timeout_ms, readonly, clock, defaults = open_options.take(options)
  if defaults then return nil, "defaults: the topics of a cluster have their configs there; give them to store:topic", "unsupported" end
  return core.open(path, servers, settings, timeout_ms or TIMEOUT_MS, readonly, clock)
end

return { open = open }

--- Sediment: an embedded log store with Apache Kafka's storage semantics and bytes on disk.
---
---     local sediment = require "sediment"
---     local store = assert(sediment.open "/var/lib/app/log")
---     local topic = assert(store:topic("prices", { cleanup_policy = "compact" }))
---     topic:append("EUR", "1.0842")
---     for offset, key, value, timestamp in topic:records() do print(offset, key, value, timestamp) end
---
--- A runtime failure is returned as `nil, message, code`; misuse (a wrong type, an unknown option, use after close) is raised. Every
--- method is described in sediment/types.lua and sediment/policy_types.lua. The module has no state of its own and sets no globals; load
--- it in any process, but open stores after the last fork: handles from before it answer `forked` in the child.

-- The two Lua ABIs differ: a C module for the other one is found and cannot be loaded.
local found, core = pcall(require, "sediment.core")
if not found then
  local other = tostring(core):find("undefined symbol: lua", 1, true) and
    "sediment: the C module that package.cpath leads to is for another Lua than " .. (rawget(_G, "jit") and "LuaJIT" or _VERSION) .. ": "
  error((other or "") .. tostring(core), 2)
end

local append_async = require "sediment.append_async"
local check = require "sediment.check"
local consumer = require "sediment.consumer"
local groups = require "sediment.groups"
local metrics = require "sediment.metrics"
local pending = require "sediment.pending"
local state_table = require "sediment.table"

local VERSION = "0.1.0"
if core._VERSION ~= VERSION then
  error("sediment: the Lua files are version " .. VERSION .. ", the C module is " .. tostring(core._VERSION) ..
        ": they come from different installations (a running nginx keeps the old C module until a full restart)")
end

core.topic.append_async, core.topic.flush = append_async.append, pending.flushing(core.life, core.topic.flush)
core.store.pending, core.store.deliver = append_async.pending, append_async.deliver
core.store.close = pending.closing(core.life, core.store.close)
core.store.table = state_table.open
core.store.metrics = metrics.of
core.store.consumer = consumer.open
core.store.groups, core.store.group, core.store.delete_group = groups.names, groups.describe, groups.delete
core.store.maintain = groups.maintaining(core.store.maintain)

local function results(...) return ... end

-- A cluster's store is a module of its own, which needs a library that nothing else needs.
local function open_cluster(path, options)
  local there, kafka = pcall(require, "sediment.kafka")
  if there then return kafka.open(path, options) end
  local why = tostring(kafka):gsub("not found:.*", "not found"):gsub("%s+", " ")
  return nil, ("%s: stores on a Kafka cluster need the module sediment.kafka, which is not there or does not load: install librdkafka "
    .. "(Debian: librdkafka1), and build with librdkafka-dev, or take the rock sediment-kafka (%s)"):format(path, why), "unsupported"
end

local function opened(ok, ...)
  if ok then return ... end
  check.raise_to(3, "open", 0, (...))
end

local function is_cluster(path) return type(path) == "string" and path:find "^kafka://" ~= nil end

-- sediment.open(path [, options]); described in sediment/types.lua.
local function open(...)
  return results(opened(pcall(is_cluster((...)) and open_cluster or core.open, ...)))
end

---@class sediment
---@field _VERSION string
---@field open fun(path: string, options?: sediment.open_options): sediment.store?, string?, string?
---@field open_partition fun(dir: string): sediment.partition?, string?, string?
return {
  _VERSION = VERSION,
  open = open,
  open_partition = core.open_partition,
}

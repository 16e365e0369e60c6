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

local consumer = require "sediment.consumer"
local groups = require "sediment.groups"
local metrics = require "sediment.metrics"
local state_table = require "sediment.table"

local VERSION = "0.1.0"
if core._VERSION ~= VERSION then
  error("sediment: the Lua files are version " .. VERSION .. ", the C module is " .. tostring(core._VERSION) ..
        ": they come from different installations (a running nginx keeps the old C module until a full restart)")
end

core.store.table = state_table.open
core.store.metrics = metrics.of
core.store.consumer = consumer.open
core.store.groups, core.store.group, core.store.delete_group = groups.names, groups.describe, groups.delete
core.store.maintain = groups.maintaining(core.store.maintain)

---@class sediment
---@field _VERSION string
---@field open fun(path: string, options?: sediment.open_options): sediment.store?, string?, string?
---@field open_partition fun(dir: string): sediment.partition?, string?, string?
return {
  _VERSION = VERSION,
  open = core.open,
  open_partition = core.open_partition,
}

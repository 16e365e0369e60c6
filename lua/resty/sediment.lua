--- Sediment for nginx: the contract of `sediment`, without blocking the event loop. docs/openresty.md has it phase by phase.
---
---     init_worker_by_lua_block {
---       local sediment = require "resty.sediment"
---       requests = assert(assert(sediment.open "/var/lib/app/log"):topic("requests", {}))
---     }
---     log_by_lua_block { requests:append(ngx.var.host, ngx.var.request) }
---
--- What is short goes straight to the C module, in every phase: an append or a look-up takes microseconds. What waits, for records or for
--- the disk, yields where nginx can, blocks in init_worker_by_lua* and exit_worker_by_lua*, where nobody waits for the worker, and raises
--- elsewhere. So does what works as long as it takes, such as compact, but that it never yields.
---
--- In init_by_lua* nothing is opened: `open` and `topic` give handles there that open in each worker, when they are first used. So a store
--- is never open across a fork, and never by the master, whose user is another.
local core = require "sediment.core"
local sediment = require "sediment"
local check = require "sediment.check"
local handle = require "resty.sediment.handle"
local phase = require "resty.sediment.phase"
local topic = require "resty.sediment.topic"
local consumer = require "resty.sediment.consumer"
local paced_table = require "resty.sediment.table"

local Store, plain_store, relay = handle.Store, handle.plain_store, handle.relay

handle.hand_on(Store, core.store, plain_store, "topics delete_topic policies policy stats metrics groups group")
handle.hand_on(Store, core.store, plain_store, "delete_group pending deliver")
handle.hand_on(Store, core.store, plain_store, "maintain import backup verify", phase.to_work)

function Store:topic(name, config)
  if phase.is_init() and getmetatable(self) == Store then return topic.new(self, name, config) end
  local store, message, code = plain_store(self, "topic")
  if not store then return nil, message, code end
  local plain
  plain, message, code = check.relay_to(3, "topic", pcall(core.store.topic, store, name, config))
  if not plain then return nil, message, code end
  return topic.new(self, name, config, plain)
end

-- Tables and consumers look for topics by their names: those that init_by_lua* asked for are made before.
local function open_topics(self, store)
  local done, message, code = handle.open_remembered(self)
  return done and store, message, code
end

function Store:table(name, options)
  local store, message, code = plain_store(self, "table")
  if store then store, message, code = open_topics(self, store) end
  if not store then return nil, message, code end
  return relay("table", pcall(paced_table.open, self, store, name, options))
end

function Store:consumer(options)
  local store, message, code = plain_store(self, "consumer")
  if store then store, message, code = open_topics(self, store) end
  if not store then return nil, message, code end
  return relay("consumer", pcall(consumer.open, self, store, options))
end

function Store:close()
  handle.check_self(self, Store, "close", 2)
  phase.refuse_init("close", 2)
  if not self.plain then self.closed = true end
  if self.closed or core.life(self.plain).closed then return true end
  phase.to_work("close", 2)
  return relay("close", pcall(core.store.close, self.plain))
end

function Store:__tostring() return Store.__name .. " (" .. self.path .. ")" end

--- Opens a store, or joins it; in init_by_lua* gives a handle that does so in each worker.
---@param path string
---@param options? sediment.open_options
---@return table? store
---@return string? message
---@return sediment.code? code
local function open(path, options)
  if type(path) == "string" and path:find "^kafka://" then
    local why = ": there is no store on a Kafka cluster for nginx yet; `sediment` has one, whose calls block the worker"
    return nil, path .. why, "unsupported"
  end
  if phase.is_init() then
    if type(path) ~= "string" then error("bad argument #1 to 'open' (path: string expected, got " .. type(path) .. ")", 2) end
    return setmetatable({ path = path, options = options }, Store)
  end
  local ok, store, message, code = pcall(handle.open_plain, path, options)
  if not ok then check.raise_to(2, "open", 0, store) end
  if not store then return nil, message, code end
  return setmetatable({ path = path, options = options, plain = store }, Store)
end

return {
  _VERSION = sediment._VERSION,
  open = open,
}

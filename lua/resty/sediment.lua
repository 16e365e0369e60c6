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
local phase = require "resty.sediment.phase"
local paced_table = require "resty.sediment.table"
local poller = require "resty.sediment.poller"

local Store = { __name = "resty.sediment.store" }
Store.__index = Store
local Topic = { __name = "resty.sediment.topic" }
Topic.__index = Topic

-- ---------------------------------------------------------------------------------------------------------------------- passing calls on

-- Raises what a plain function raised, at the line `level` above. A plain method that was not called as one counts its object, and is not
-- named.
local function raise_to(level, call, self, message)
  if type(message) ~= "string" then error(message, 0) end
  message = message:gsub("^%S*resty/sediment[%w/]*%.lua:%d+: ", "")
  message = message:gsub("^bad argument #(%d+) to '([^']*)'", function(n, name)
    return ("bad argument #%d to '%s'"):format(name == call and n or n - self, call)
  end)
  error(message, level + 1)
end

-- The results of a pcall of a plain method, or what it raised.
local function relay_to(level, call, ok, ...)
  if ok then return ... end
  raise_to(level, call, 1, (...))
end

-- The same as the last thing that a method does, which leaves the caller of the method the nearest.
local function relay(call, ...) return relay_to(2, call, ...) end

local function check_self(self, class, call, level)
  if getmetatable(self) == class then return end
  error(("bad argument #1 to '%s' (%s expected, got %s; call it with ':')"):format(call, class.__name, type(self)), level + 1)
end

-- The plain store behind a handle; nil, message, code when it cannot be opened. Raises in the master, `level` above.
local function plain_store(self, call, level)
  level = level or 3
  check_self(self, Store, call, level)
  if self.plain then return self.plain end
  phase.refuse_init(call, level)
  if self.closed then error("use after close: the store is closed", level) end
  local store, message, code = sediment.open(self.path, self.options)
  self.plain = store
  return store, message, code
end

-- The same of a topic.
local function plain_topic(self, call)
  check_self(self, Topic, call, 3)
  if self.plain then return self.plain end
  local store, message, code = plain_store(self.store, call, 4)
  if not store then return nil, message, code end
  self.plain, message, code = store:topic(self.name, self.given)
  return self.plain, message, code
end

-- Methods that are handed on as they are, after `check` if one is given.
local function hand_on(class, plain_methods, plain, names, check)
  for name in names:gmatch "%S+" do
    local method = plain_methods[name]
    class[name] = function(self, ...)
      local object, message, code = plain(self, name)
      if not object then return nil, message, code end
      if check then check(name, 2) end
      return relay(name, pcall(method, object, ...))
    end
  end
end

hand_on(Store, core.store, plain_store, "topics delete_topic stats")
hand_on(Store, core.store, plain_store, "maintain import", phase.to_work)
hand_on(Topic, core.topic, plain_topic, "earliest latest partitions offset_for_time segments config describe alter stats roll")
hand_on(Topic, core.topic, plain_topic, "retain compact", phase.to_work)

-- --------------------------------------------------------------------------------------------------------------------------------- stores

--- Opens a store, or joins it; in init_by_lua* gives a handle that does so in each worker.
---@param path string
---@param options? sediment.open_options
---@return table? store
---@return string? message
---@return sediment.code? code
local function open(path, options)
  if phase.is_init() then
    if type(path) ~= "string" then error("bad argument #1 to 'open' (path: string expected, got " .. type(path) .. ")", 2) end
    return setmetatable({ path = path, options = options }, Store)
  end
  local ok, store, message, code = pcall(sediment.open, path, options)
  if not ok then raise_to(2, "open", 0, store) end
  if not store then return nil, message, code end
  return setmetatable({ path = path, options = options, plain = store }, Store)
end

function Store:topic(name, config)
  local topic = { store = self, name = name, given = config, record_pollers = {}, flush_pollers = {} }
  if not (phase.is_init() and getmetatable(self) == Store) then
    local store, message, code = plain_store(self, "topic")
    if not store then return nil, message, code end
    topic.plain, message, code = relay_to(3, "topic", pcall(core.store.topic, store, name, config))
    if not topic.plain then return nil, message, code end
  end
  return setmetatable(topic, Topic)
end

function Store:table(name, options)
  local store, message, code = plain_store(self, "table")
  if not store then return nil, message, code end
  return relay("table", pcall(paced_table.open, store, name, options))
end

function Store:close()
  check_self(self, Store, "close", 2)
  phase.refuse_init("close", 2)
  self.closed = true
  if not self.plain or core.life(self.plain).closed then return true end
  phase.to_work("close", 2)
  return relay("close", pcall(core.store.close, self.plain))
end

function Store:__tostring() return Store.__name .. " (" .. self.path .. ")" end
function Topic:__tostring() return Topic.__name .. " (" .. self.name .. ")" end

-- ------------------------------------------------------------------------------------------------------------------- waiting for records

local function check_timeout(call, number, timeout_ms)
  if timeout_ms == nil then return end
  local whole = type(timeout_ms) == "number" and timeout_ms % 1 == 0
  if whole and timeout_ms >= 0 then return end
  local wanted = whole and "0 or more" or "a whole number within 2^53"
  error(("bad argument #%d to '%s' (timeout_ms: %s expected, got %s)"):format(number, call, wanted, tostring(timeout_ms)), 3)
end

-- The poller of a partition in `pollers`, made when it is missing.
local function poller_of(pollers, p, look)
  local found = pollers[p]
  if not found then
    found = poller.new(look)
    pollers[p] = found
  end
  return found
end

local function poller_of_records(self, topic, p)
  return poller_of(self.record_pollers, p, function() return not ngx.worker.exiting() and topic:latest(p) end)
end

-- topic:wait, yielding. An exiting worker does not wait: what is there is found, and else it is as if none came in time.
local function wait_yielding(self, topic, offset, timeout_ms, p)
  local left = timeout_ms and timeout_ms / 1000 or math.huge
  while true do
    local log_end, message, code = topic:wait(offset, 0, p)
    if log_end or message or left <= 0 or ngx.worker.exiting() then return log_end, message, code end
    left = poller_of_records(self, topic, p or 0):wait(offset, left)
  end
end

function Topic:wait(offset, timeout_ms, p)
  local topic, message, code = plain_topic(self, "wait")
  if not topic then return nil, message, code end
  check_timeout("wait", 2, timeout_ms)
  if timeout_ms == 0 or phase.to_wait("wait", 2) == "block" then
    return relay("wait", pcall(core.topic.wait, topic, offset, timeout_ms, p))
  end
  return relay("wait", pcall(wait_yielding, self, topic, offset, timeout_ms, p))
end

-- What iterators raise, as the plain module does: a table whose tostring is the message.
local ERROR = { __name = "sediment.error", __tostring = function(e) return e.message end }

local function throw(message, code) error(setmetatable({ message = message, code = code }, ERROR), 0) end

-- For a method that answers nil when there is nothing, and nil, message, code when it fails.
local function or_throw(result, message, code)
  if message then throw(message, code) end
  return result
end

-- An iterator over what `next_record` gives, which may be called again when it has given nil. It waits where nothing came since the look
-- before.
local function following(self, topic, options, next_record)
  local p, to, timeout_ms = options.partition or 0, options.to or math.huge, options.timeout_ms
  local seen
  return function()
    while true do
      local offset, key, value, timestamp, headers = next_record()
      if offset ~= nil then return offset, key, value, timestamp, headers end
      local log_end = or_throw(topic:latest(p))
      if log_end ~= seen then seen = log_end
      elseif seen >= to or not or_throw(wait_yielding(self, topic, seen, timeout_ms, p)) then return nil end
    end
  end
end

local function without_wait(options)
  local copy = {}
  for name, value in pairs(options) do copy[name] = value end
  copy.timeout_ms = 0
  return copy
end

function Topic:records(options)
  local topic, message, code = plain_topic(self, "records")
  if not topic then throw(message, code) end
  if type(options) ~= "table" or options.follow ~= true or options.timeout_ms == 0 then
    return relay("records", pcall(core.topic.records, topic, options))
  end
  check_timeout("records", 1, options.timeout_ms)
  if phase.to_wait("records{follow=true}", 2) == "block" then return relay("records", pcall(core.topic.records, topic, options)) end
  return following(self, topic, options, (relay_to(3, "records", pcall(core.topic.records, topic, without_wait(options)))))
end

-- ------------------------------------------------------------------------------------------------------------------------- durability

-- A thread of this process does the flush. Its tickets are numbers that grow.
local function poller_of_flushes(self, topic, p)
  return poller_of(self.flush_pollers, p, function(ticket)
    local durable, message = core.flush_poll(topic, p, ticket)
    return durable and ticket + 1 or not message and ticket
  end)
end

-- topic:flush, yielding. An exiting worker waits, too: it is about what was appended.
local function flush_yielding(self, topic, p)
  local ticket, message, code = core.flush_begin(topic, p)
  if not ticket then return nil, message, code end
  while true do
    local durable
    durable, message, code = core.flush_poll(topic, p, ticket)
    if durable or message then return durable, message, code end
    poller_of_flushes(self, topic, p):wait(ticket, math.huge)
  end
end

function Topic:flush(p)
  local topic, message, code = plain_topic(self, "flush")
  if not topic then return nil, message, code end
  if phase.to_wait("flush", 2) == "block" then return relay("flush", pcall(core.topic.flush, topic, p)) end
  return relay("flush", pcall(flush_yielding, self, topic, p or 0))
end

-- The flush that `delete_records` begins with is done without blocking.
function Topic:delete_records(before, p)
  local topic, message, code = plain_topic(self, "delete_records")
  if not topic then return nil, message, code end
  if phase.to_wait("delete_records", 2) == "yield" then
    local durable
    durable, message, code = self:flush(p)
    if not durable then return nil, message, code end
  end
  return relay("delete_records", pcall(core.topic.delete_records, topic, before, p))
end

-- ------------------------------------------------------------------------------------------------------------------------- appending

local function without_sync(options)
  local copy = {}
  for name, value in pairs(options) do copy[name] = value end
  copy.sync = nil
  return copy
end

-- Whether an append is to be durable, and that must be waited for by yielding.
local function syncs(options, call)
  return type(options) == "table" and options.sync == true and phase.to_wait(call .. "{sync=true}", 3) == "yield"
end

-- Results of an append that was made durable in the partitions from `first` to `last`.
local function synced(self, topic, first, last, offset, second)
  for p = first, last do
    local durable, message, code = flush_yielding(self, topic, p)
    if not durable then
      return nil, ("offset %.0f was appended, but may not be on the disk: %s"):format(offset, message), code == "disk_full" and code or "io"
    end
  end
  return offset, second
end

function Topic:append(key, value, options)
  local topic, message, code = plain_topic(self, "append")
  if not topic then return nil, message, code end
  if not syncs(options, "append") then return relay("append", pcall(core.topic.append, topic, key, value, options)) end
  local offset, p, why = relay_to(3, "append", pcall(core.topic.append, topic, key, value, without_sync(options)))
  if not offset then return nil, p, why end
  return synced(self, topic, p, p, offset, p)
end

-- Which partition a batch has gone to is known of one only, or where it was said: else all are flushed.
function Topic:append_batch(records, options)
  local topic, message, code = plain_topic(self, "append_batch")
  if not topic then return nil, message, code end
  if not syncs(options, "append_batch") then return relay("append_batch", pcall(core.topic.append_batch, topic, records, options)) end
  local first, last, why = relay_to(3, "append_batch", pcall(core.topic.append_batch, topic, records, without_sync(options)))
  if not first then return nil, last, why end
  local count = options.partition and 1 or topic:partitions() or 1
  return synced(self, topic, options.partition or 0, options.partition or count - 1, first, last)
end

return {
  _VERSION = sediment._VERSION,
  open = open,
}

-- Topics in nginx: what is short goes straight to the plain topic; what waits, for records or for the disk, yields.
local append_async = require "sediment.append_async"
local check = require "sediment.check"
local core = require "sediment.core"
local handle = require "resty.sediment.handle"
local pacer = require "resty.sediment.pace"
local phase = require "resty.sediment.phase"
local poller = require "resty.sediment.poller"

local Topic, plain_topic, relay, relay_to = handle.Topic, handle.plain_topic, handle.relay, check.relay_to

-- `plain` is the topic behind it, if it is open.
local function new(store, name, config, plain)
  local topic = setmetatable({
    store = store, name = name, given = config, plain = plain,
    record_pollers = {}, flush_pollers = {},           -- partition -> its poller
  }, Topic)
  if not plain then handle.remember(store, topic) end
  return topic
end

handle.hand_on(Topic, core.topic, plain_topic, "earliest latest partitions offset_for_time segments config describe alter stats roll")
handle.hand_on(Topic, core.topic, plain_topic, "retain compact", phase.to_work)

function Topic:__tostring() return Topic.__name .. " (" .. self.name .. ")" end

local function copy_with(options, name, value)
  local copy = {}
  for key, given in pairs(options) do copy[key] = given end
  copy[name] = value
  return copy
end

-- ------------------------------------------------------------------------------------------------------------------- waiting for records

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
  check.timeout("wait", 2, timeout_ms, 2)
  if timeout_ms == 0 or phase.to_wait("wait", 2) == "block" then
    return relay("wait", pcall(core.topic.wait, topic, offset, timeout_ms, p))
  end
  return relay("wait", pcall(wait_yielding, self, topic, offset, timeout_ms, p))
end

-- An iterator over what `next_record` gives, which may be called again when it has given nil. It waits where nothing came since the look
-- before; who is far behind gives way as he catches up.
local function following(self, topic, options, next_record)
  local p, to, timeout_ms = options.partition or 0, options.to or math.huge, options.timeout_ms
  local pace, seen = pacer.new()
  return function()
    while true do
      local offset, key, value, timestamp, headers = next_record()
      if offset ~= nil then
        pace(value and #value or 0)
        return offset, key, value, timestamp, headers
      end
      local log_end = check.or_throw(topic:latest(p))
      if log_end ~= seen then seen = log_end
      elseif seen >= to or not check.or_throw(wait_yielding(self, topic, seen, timeout_ms, p)) then return nil end
    end
  end
end

function Topic:records(options)
  local topic = check.or_throw(plain_topic(self, "records"))
  if type(options) ~= "table" or options.follow ~= true or options.timeout_ms == 0 then
    return relay("records", pcall(core.topic.records, topic, options))
  end
  check.timeout("records", 1, options.timeout_ms, 2)
  if phase.to_wait("records{follow=true}", 2) == "block" then return relay("records", pcall(core.topic.records, topic, options)) end
  return following(self, topic, options, (relay_to(3, "records", pcall(core.topic.records, topic, copy_with(options, "timeout_ms", 0)))))
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

-- ... and what append_async has begun is done before, and told.
local function flush_all_yielding(self, topic, p)
  local done, message, code = append_async.flush(topic)
  if not done then return nil, message, code end
  return flush_yielding(self, topic, p)
end

function Topic:flush(p)
  local topic, message, code = plain_topic(self, "flush")
  if not topic then return nil, message, code end
  if phase.to_wait("flush", 2) == "block" then return relay("flush", pcall(core.topic.flush, topic, p)) end
  return relay("flush", pcall(flush_all_yielding, self, topic, p or 0))
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

-- Whether an append is to be durable, and that must be waited for by yielding.
local function syncs(options, call)
  return type(options) == "table" and options.sync == true and phase.to_wait(call .. "{sync=true}", 3) == "yield"
end

-- Results of an append to partition `p`, once it is durable there.
local function synced(self, topic, p, offset, second)
  local durable, message, code = flush_yielding(self, topic, p)
  if durable then return offset, second end
  return append_async.undurable(offset, message, code)
end

-- By tail calls, which need no pcall: what they raise names the caller's line, since this file is not on the stack.
local plain_append, plain_append_batch, plain_append_async = core.topic.append, core.topic.append_batch, append_async.append

function Topic:append(key, value, options)
  local topic, message, code = plain_topic(self, "append")
  if not topic then return nil, message, code end
  if not syncs(options, "append") then return plain_append(topic, key, value, options) end
  local offset, p, why = relay_to(3, "append", pcall(core.topic.append, topic, key, value, copy_with(options, "sync", nil)))
  if not offset then return nil, p, why end
  return synced(self, topic, p, offset, p)
end

-- It waits for nothing, whatever its options: the pending object does.
function Topic:append_async(key, value, options)
  local topic, message, code = plain_topic(self, "append_async")
  if not topic then return nil, message, code end
  return plain_append_async(topic, key, value, options)
end

function Topic:append_batch(records, options)
  local topic, message, code = plain_topic(self, "append_batch")
  if not topic then return nil, message, code end
  if not syncs(options, "append_batch") then return plain_append_batch(topic, records, options) end
  local first, last, p = relay_to(3, "append_batch", pcall(core.append_batch, topic, records, copy_with(options, "sync", nil)))
  if not first then return nil, last, p end
  return synced(self, topic, p, first, last)
end

return { new = new }

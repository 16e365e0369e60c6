-- topic:append_async of a store in a folder. The append happens at once; what may be under way is the disk: those with sync = true are done
-- in the order in which they were begun, as the flushes that cover them are.
local check = require "sediment.check"
local core = require "sediment.core"
local pending = require "sediment.pending"

local async = {}

local relay_to = check.relay_to

--- What an append answers that is in the log and could not be flushed.
function async.undurable(offset, message, code)
  return nil, ("offset %.0f was appended, but may not be on the disk: %s"):format(offset, message), code == "disk_full" and code or "io"
end

-- ------------------------------------------------------------------------------------------------------------------------------- flushes

local function settle_flushed(reports, p, durable, message, code)
  local flushes = reports.flushes
  flushes[flushes.first], flushes.first = nil, flushes.first + 1
  if durable then reports:settle(p, p[1], p[2])
  else reports:settle(p, async.undurable(p[1], message, code)) end
end

-- While it waits another coroutine may settle what it waits for.
local function pull(reports, ms)
  local flushes = reports.flushes
  while flushes.first <= flushes.last do
    local p = flushes[flushes.first]
    local durable, message, code = reports.flush_poll(p.topic, p[2], p.ticket, ms)
    if not p.is_done then
      if not durable and not message then break end
      settle_flushed(reports, p, durable, message, code)
    end
    ms = 0
  end
  return true
end

local function begin_flush(reports, p, topic, offset, partition)
  local ticket, message, code = core.flush_begin(topic, partition)
  if not ticket then return reports:settle(p, async.undurable(offset, message, code)) end
  p.topic, p.ticket, p[1], p[2] = topic, ticket, offset, partition
  local flushes = reports.flushes
  flushes.last = flushes.last + 1
  flushes[flushes.last] = p
  reports:enter(p)
end

-- --------------------------------------------------------------------------------------------------------------------------------- calls

--- The reports of a store, or of the one that a topic belongs to. `flush_poll` is core.flush_poll, or another way to wait for a flush.
function async.reports(object)
  local life = core.life(object)
  local reports = pending.reports_of(life)
  if reports then return reports end
  local store = getmetatable(object).__name == "sediment.store" and object or core.store_of(object)
  reports = pending.reports_of(life, store, pull)
  reports.flushes, reports.flush_poll = { first = 1, last = 0 }, core.flush_poll
  return reports
end

--- topic:append_async. What is no topic is told by core.begin.
function async.append(topic, key, value, options)
  local there, reports = pcall(async.reports, topic)
  local busy, why, offset, partition, code
  if there then busy, why, code = reports:is_busy() end
  if busy then return nil, why, code end
  offset, partition, code = relay_to(3, "append_async", pcall(core.begin, topic, key, value, options))
  local p = pending.new(reports, options)
  if offset and options and options.sync then begin_flush(reports, p, topic, offset, partition)
  else reports:settle(p, offset, partition, code) end
  return p
end

--- store:pending
function async.pending(store)
  check.store(store, "pending")
  return pending.count(pending.reports_of(core.life(store)))
end

--- store:deliver
function async.deliver(store, timeout_ms)
  check.store(store, "deliver")
  check.timeout("deliver", 1, timeout_ms, 2)
  return pending.deliver(pending.reports_of(core.life(store)), timeout_ms)
end

--- What topic:flush begins with.
function async.flush(topic) return pending.flush(pending.reports_of(core.life(topic))) end

return async

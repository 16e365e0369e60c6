-- topic:append_async of a cluster: librdkafka collects the records and sends them; the reports of their delivery are fetched by whoever
-- asks, on its thread.
local core = require "sediment.kafka.core"
local check = require "sediment.check"
local pending = require "sediment.pending"

local async = {}

local relay_to = check.relay_to

local FIELDS, LIST_MAX = 3, 3 * 1024      -- of core.reports
local FETCH_AT = 1000                     -- reports: what was acknowledged does not pile up, even if nobody asks

local function settle_all(reports, list, n)
  for i = 1, n, FIELDS do
    local p, first, second = reports.places[list[i]], list[i + 1], list[i + 2]
    if type(first) == "number" then reports:settle(p, first, second)
    else reports:settle(p, nil, first, second) end
  end
end

local function pull(reports, ms, hurry)
  repeat
    local n, message, code = core.reports(reports.store, reports.list, ms, hurry)
    if not n then return nil, message, code end
    settle_all(reports, reports.list, n)
    ms = 0
  until n < LIST_MAX
  return true
end

local function reports_of(topic)
  local life = core.life(topic)
  local reports = pending.reports_of(life)
  if reports then return reports end
  reports = pending.reports_of(life, core.store_of(topic), pull)
  reports.list = {}
  return reports
end

--- topic:append_async. What is no topic is told by core.begin.
function async.append(topic, key, value, options)
  local there, reports = pcall(reports_of, topic)
  local busy, unread, message, code
  if there then busy, message, code = reports:is_busy() end
  if busy then return nil, message, code end
  unread, message, code = relay_to(3, "append_async", pcall(core.begin, topic, key, value, options, there and reports.free or 0))
  if code == "busy" then return nil, message, code end
  local p = pending.new(reports, options)
  if not unread then reports:settle(p, nil, message, code)
  else reports:enter(p) end
  if unread and unread >= FETCH_AT then pull(reports, 0) end
  return p
end

function async.pending(store)
  return pending.count(pending.reports_of(core.life(store)))
end

function async.deliver(store, timeout_ms)
  check.timeout("deliver", 1, timeout_ms, 3)
  return pending.deliver(pending.reports_of(core.life(store)), timeout_ms)
end

--- What is under way when the time of close is over will not be waited for.
function async.give_up(reports)
  core.give_up(reports.store)
  pull(reports, 0)
end

return async

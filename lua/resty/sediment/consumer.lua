-- Consumers whose polls let other requests run while they wait.
local core = require "sediment.core"
local plain_consumer = require "sediment.consumer"
local phase = require "resty.sediment.phase"
local topic = require "resty.sediment.topic"

local STEP = 0.001                        -- seconds

-- In place of core.wait_any: looks every millisecond. An exiting worker does not wait.
local function wait_yielding(list, timeout_ms)
  local until_ms = core.monotonic_ms() + timeout_ms
  while true do
    local came, message, code = core.wait_any(list, 0)
    if came or message then return came, message, code end
    if ngx.worker.exiting() then return "over" end
    if core.monotonic_ms() >= until_ms then return false end
    ngx.sleep(STEP)
  end
end

local function wait(list, timeout_ms)
  return (phase.can_yield() and wait_yielding or core.wait_any)(list, timeout_ms)
end

-- Of the commits of a store, whose handle in nginx is `store`.
local function flushing(store)
  return function(commits)
    return topic.new(store, commits.topic_name, nil, commits.topic):flush(commits:partition())
  end
end

-- A method that may wait, if its options say so: what does not fit the phase is refused.
local function guarded(method, call, option)
  return function(self, ...)
    for i = 1, select("#", ...) do
      local options = select(i, ...)
      local value = type(options) == "table" and options[option]
      if value and value ~= 0 then phase.to_wait(call, 2) end
    end
    return method(self, ...)
  end
end

-- store:consumer(options) of the plain store behind the handle `store`. The consumer has the methods of any.
local function open(store, plain, options)
  local consumer, message, code = plain_consumer.open(plain, options)
  if not consumer then return nil, message, code end
  consumer.wait_any = wait
  consumer.poll = guarded(consumer.poll, "poll{timeout_ms=}", "timeout_ms")
  consumer.records = guarded(consumer.records, "records{follow=true}", "follow")
  consumer.commit = guarded(consumer.commit, "commit{sync=true}", "sync")
  if consumer.commits then consumer.commits.flush = flushing(store) end
  return consumer
end

return { open = open }

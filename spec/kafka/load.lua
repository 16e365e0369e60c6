-- What runs while brokers are killed, each a process of its own that writes down what each call told it:
--     lua load.lua append|batch|read STORE NAME TOPIC TIMEOUT_MS FOLDER        until there is a file FOLDER/stop-NAME
-- The ledger is FOLDER/NAME, a line for each record or failed call: outcome ("ok" or the code), milliseconds of the call, partition,
-- offset, key, the record's mark; "-" is what is not known.
local sediment = require "sediment"
local core = require "sediment.kafka.core"

local role, path, name, topic_name, timeout_ms, folder = (unpack or table.unpack)(arg)
local PAUSE_MS, KEYS, BATCH = 10, 7, 5

local store = assert(sediment.open(path, { timeout_ms = tonumber(timeout_ms) }))
local ledger = assert(io.open(folder .. "/" .. name, "a"))
ledger:setvbuf "line"

local function note(...) ledger:write(("%s %.0f %s %s %s %s\n"):format(...)) end

local function stopped()
  local f = io.open(folder .. "/stop-" .. name)
  if f then f:close() end
  return f ~= nil
end

local function timed(f, ...)
  local began = core.monotonic_ms()
  local a, b, c = f(...)
  return core.monotonic_ms() - began, a, b, c
end

-- The number n of a writer's records, marked by a header, for it is a tombstone now and then.
local function record_of(n)
  local mark = ("%s:%d"):format(name, n)
  return { key = name .. "-" .. n % KEYS, value = n % 11 ~= 0 and mark or nil, headers = { { "mark", mark } } }
end

local roles = {}

function roles.append()
  local topic, n = assert(store:topic(topic_name)), 0
  return function()
    n = n + 1
    local r = record_of(n)
    local ms, offset, p, code = timed(topic.append, topic, r.key, r.value, { headers = r.headers })
    note(code or "ok", ms, offset and p or "-", offset or "-", r.key, name .. ":" .. n)
    if code then io.stderr:write(name, ": ", p, "\n") end
  end
end

-- One partition's only batches: which offsets its records have is the log's to tell, between first and last.
function roles.batch()
  local topic, n = assert(store:topic(topic_name)), 0
  return function()
    local list = {}
    for i = 1, BATCH do
      list[i] = record_of(n + i)
    end
    local ms, first, last, code = timed(topic.append_batch, topic, list, { partition = 0 })
    for i = 1, BATCH do
      note(code or "ok", ms, 0, first and ("%d-%d"):format(first, last) or "-", list[i].key, name .. ":" .. n + i)
    end
    if code then io.stderr:write(name, ": ", last, "\n") end
    n = n + BATCH
  end
end

function roles.read()
  local consumer, message, code
  repeat consumer, message, code = store:consumer { topics = { topic_name }, group = "group-" .. topic_name }
  until consumer or code ~= "timeout" and code ~= "unavailable"
  assert(consumer, message)
  return function()
    local ms, list, why, what = timed(consumer.poll, consumer, { timeout_ms = 200 })
    if not list then
      note(what, ms, "-", "-", "-", "-")
      io.stderr:write(name, ": poll: ", why, "\n")
    end
    for _, r in ipairs(list or {}) do note("ok", ms, r.partition, ("%d"):format(r.offset), r.key, r.headers[1][2]) end
    local took
    took, list, why, what = timed(consumer.commit, consumer)
    if not list then
      note(what, took, "-", "-", "-", "-")
      io.stderr:write(name, ": commit: ", why, "\n")
    end
  end
end

local step = roles[role]()
while not stopped() do
  step()
  core.idle(store, PAUSE_MS)
end
store:close()
note("end", 0, "-", "-", "-", "-")

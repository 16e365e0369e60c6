-- A request is a record: its client is the key, its time the value. The state table goes through them in the order of the log, and keeps
-- for each client the time up to which he has used up what he may (the theoretical arrival time of the generic cell rate algorithm). So
-- every worker comes to the same answer about each request, and none is counted twice or left out, without a lock between the workers.
--
-- A worker that starts sees of each client the last record alone. That has what its writer knew before it, and so it is enough.
local sediment = require "resty.sediment"

local rate_limiter = {}

local INTERVAL, BURST = 60 / 10, 20       -- seconds between requests in the long run; how many may come at once

local requests
local used = {}                           -- client -> time in seconds; as in the table, but for what is just being read
local answers = {}                        -- id of a request of this worker, until it is asked for -> seconds to wait, 0: it is served
local mine, last_id = nil, 0

-- What a record makes of its client.
local function decode(value, client)
  local time, before, worker, id = value:match "^(%S+) (%S+) (%S+) (%d+)$"
  time = tonumber(time)
  local used_up = math.max(used[client] or 0, tonumber(before), time)
  local wait = used_up + INTERVAL - (time + BURST * INTERVAL)
  local served = wait <= 0
  if worker == mine then answers[id] = served and 0 or wait end
  return served and used_up + INTERVAL or used_up
end

function rate_limiter.open(folder)
  mine = ngx.worker.pid() .. "-" .. ngx.time()
  local store = assert(sediment.open(folder))
  -- Who has not come for an hour is forgotten: his last record goes.
  assert(store:topic("requests", { cleanup_policy = "compact,delete", retention_ms = "1h", segment_ms = "10m" }))
  requests = assert(store:table("requests", {
    decode = decode,
    on_change = function(client, time) used[client] = time end,
    snapshot = true, schema = "rate_limiter 1",
  }))
end

function rate_limiter.close() assert(requests:close()) end

function rate_limiter.limit(client)
  last_id = last_id + 1
  local id = tostring(last_id)
  local offset, message = requests:put(client, ("%.3f %.3f %s %s"):format(ngx.now(), used[client] or 0, mine, id))
  if not offset then
    ngx.log(ngx.ERR, "not counted: ", message)
    return                                -- it had better serve too much than nothing
  end
  local wait = answers[id]
  answers[id] = nil
  if wait == 0 then return end
  ngx.header["Retry-After"] = math.ceil(wait)
  return ngx.exit(429)
end

function rate_limiter.list()
  requests:update()
  local lines = {}
  for client, time in requests:pairs() do
    lines[#lines + 1] = ("%s may send %d more\n"):format(client, BURST - math.ceil(math.max(0, time - ngx.now()) / INTERVAL))
  end
  table.sort(lines)
  ngx.print(lines)
end

return rate_limiter

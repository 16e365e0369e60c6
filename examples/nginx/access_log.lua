-- Every request a record: key the client, value a line. Old segments go by age and size, so the disk does not fill up.
local sediment = require "resty.sediment"

local access_log = {}

local requests

function access_log.open(folder)
  local store = assert(sediment.open(folder))
  requests = assert(store:topic("requests", { retention_ms = "1d", retention_bytes = "1GiB", segment_bytes = "64MiB" }))
end

-- In log_by_lua: nobody waits for it, and it waits for nobody.
function access_log.log()
  local var = ngx.var
  local line = table.concat({ var.status, var.request_method, var.request_uri, var.request_time }, " ")
  local offset, message = requests:append(var.remote_addr, line)
  if not offset then ngx.log(ngx.ERR, "access log: ", message) end
end

-- The offset that a client goes on from: behind the last that it saw, unless that is gone; or now.
local function first_for(last_seen)
  if not last_seen or last_seen % 1 ~= 0 then return requests:latest() end
  return math.max(requests:earliest(), math.min(last_seen + 1, requests:latest()))
end

local HEARTBEAT_MS = 10000                 -- tells the client that the server is there, and the server that the client is

-- A stream of server-sent events, whose ids are offsets. It ends when the worker does; the client comes back to a new one.
function access_log.tail()
  ngx.header.content_type = "text/event-stream"
  local from = first_for(tonumber(ngx.req.get_headers()["last-event-id"]))
  repeat
    ngx.print ": here\n\n"
    if not ngx.flush(true) then return end
    for offset, client, line in requests:records { from = from, follow = true, timeout_ms = HEARTBEAT_MS } do
      ngx.print(("id: %.0f\ndata: %s %s\n\n"):format(offset, client, line))
      if not ngx.flush(true) then return end
      from = offset + 1
    end
  until ngx.worker.exiting()
end

return access_log

-- A topic keeps the last value of each flag, and every worker has them all in a Lua table. Whether there is news is one load from shared
-- memory, so it is asked at each look-up: no worker goes by an old flag, and none is told.
local sediment = require "resty.sediment"

local feature_flags = {}

local flags, state

function feature_flags.open(folder)
  local store = assert(sediment.open(folder))
  flags = assert(store:topic("flags", { cleanup_policy = "compact", segment_ms = "1d" }))
  state = assert(store:table "flags")
end

local function refresh()
  if flags:latest() ~= state:offset() then assert(state:update()) end
end

-- The value of a flag, nil when it has none. In any phase.
function feature_flags.get(name)
  refresh()
  return state:get(name)
end

function feature_flags.list()
  refresh()
  local lines = {}
  for name, value in state:pairs() do lines[#lines + 1] = name .. " = " .. value .. "\n" end
  table.sort(lines)
  ngx.print(lines)
end

-- A flag is durable when the request is answered. Without a value it goes.
local function set(name, value)
  local offset, message = flags:append(name, value, { sync = true })
  if offset then return ngx.exit(204) end
  ngx.log(ngx.ERR, "flag ", name, ": ", message)
  ngx.exit(503)
end

local METHODS = {
  GET = function(name)
    local value = feature_flags.get(name)
    if not value then return ngx.exit(404) end
    ngx.say(value)
  end,
  PUT = function(name)
    ngx.req.read_body()
    set(name, ngx.req.get_body_data() or "")
  end,
  DELETE = function(name) set(name, nil) end,
}

function feature_flags.serve(name)
  local method = METHODS[ngx.req.get_method()]
  if not method then return ngx.exit(405) end
  method(name)
end

return feature_flags

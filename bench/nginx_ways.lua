-- The ways to keep a record of a request that bench/nginx.lua compares: a location each, with the same record, the client's address and the
-- request line, and the same handler: one that answers at once, which is the least there is, or a proxy of it. DIR stands for the folder
-- where all is kept, ADDRESS for where nginx listens.
local scripts = require "scripts"

local ways = {}

ways.http = [[
  lua_shared_dict lines 256m;
  log_format line "$remote_addr $request";
  upstream at_once { server ADDRESS; keepalive 64; }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
]]

-- What the locations use. The timer writes what the shared dictionary has gathered, ten times a second.
ways.init_worker = [[
  local sediment = require "resty.sediment"
  local store = assert(sediment.open "DIR/store")
  in_log, in_content, proxied = assert(store:topic "log"), assert(store:topic "content"), assert(store:topic "proxied")
  file = assert(io.open("DIR/file", "a"))
  gathered = ngx.shared.lines
  local drained = assert(io.open("DIR/shared", "a"))
  assert(ngx.timer.every(0.1, function()
    for line in function() return (gathered:lpop "lines") end do drained:write(line) end
    drained:flush()
  end))
  function answer() ngx.print "hello, world\n" end
]]

local function lines_of(name)
  return function(folder) return tonumber(scripts.shell("cat '" .. folder .. "/" .. name .. "' | wc -l")) end
end

local function records_of(store, name)
  local topic = assert(store:topic(name, { retention_ms = "1d", segment_bytes = "64MiB" }))
  return function() return topic:latest() end
end

-- Taken and dropped, which is most of what a record costs in Lua: ngx.var is read by nginx's Lua library through the FFI, interpreted.
local TAKE = "local _, _ = ngx.var.remote_addr, ngx.var.request"

local AT_ONCE, PROXY = "content_by_lua_block { answer() %s }", "proxy_pass http://at_once/none;"

--- The ways, the one that keeps nothing first. `kept` counts the records; `handler` is the way that does all the rest of it; `requests`
--- says how many requests one is to nginx, if not 1.
function ways.list(store)
  local function log_by(text) return ("log_by_lua_block { %s }"):format(text) end
  return {
    { name = "none", path = "none", handler = "none" },
    { name = "none, taken in log_by_lua", path = "take_log", handler = "none", rest = log_by(TAKE) },
    { name = "none, taken in content_by_lua", path = "take_content", handler = "none", content = TAKE },
    { name = "Sediment in log_by_lua", path = "log", handler = "take_log", kept = records_of(store, "log"),
      rest = log_by "in_log:append(ngx.var.remote_addr, ngx.var.request)" },
    { name = "Sediment in content_by_lua", path = "content", handler = "take_content", kept = records_of(store, "content"),
      content = "in_content:append(ngx.var.remote_addr, ngx.var.request)" },
    { name = "access_log, buffer=64k flush=1s", path = "access_log", handler = "none", kept = lines_of "access_log",
      rest = "access_log DIR/access_log line buffer=64k flush=1s;" },
    { name = "shared dictionary, timer to a file", path = "shared", handler = "take_log", kept = lines_of "shared",
      rest = log_by "gathered:rpush('lines', ngx.var.remote_addr .. ' ' .. ngx.var.request .. '\\n')" },
    { name = "io: write and flush a line", path = "file", handler = "take_log", kept = lines_of "file",
      rest = log_by "file:write(ngx.var.remote_addr, ' ', ngx.var.request, '\\n') file:flush()" },
    { name = "proxy: none, taken in log_by_lua", path = "take_proxied", handler = "take_proxied", requests = 2, proxied = true,
      rest = log_by(TAKE) },
    { name = "proxy: Sediment in log_by_lua", path = "proxied", handler = "take_proxied", requests = 2, proxied = true,
      kept = records_of(store, "proxied"), rest = log_by "proxied:append(ngx.var.remote_addr, ngx.var.request)" },
  }
end

--- The location of a way.
function ways.location(way)
  local serve = way.proxied and PROXY or AT_ONCE:format(way.content or "")
  return ("location = /%s { %s %s }"):format(way.path, serve, way.rest or "")
end

return ways

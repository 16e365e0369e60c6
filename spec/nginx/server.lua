-- A real nginx for specs: its configuration in a fresh folder, a Unix socket to ask it through, curl to ask.
--
-- Each worker writes a line into a FIFO when it has started, and holds it open. Reading the line is how a spec waits for a worker, and the
-- end of the FIFO is how it waits for the last one to be gone.
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local server = {}
server.__index = server

local function trim(text) return (text:gsub("%s+$", "")) end

local binary, modules = scripts.shell("sh '" .. scripts.root .. "/tools/find-nginx.sh'"):match "^([^\n]+)\n(.*)"
local has_curl = disk.run "command -v curl > /dev/null" == 0

--- What a spec that needs a server should skip with; nil: nothing is missing.
server.missing = not binary and "needs nginx with its Lua module" or not has_curl and "needs curl" or nil

-- The module is LuaJIT's whatever runs the spec.
local LUA = ('lua_package_path "%s/lua/?.lua;%s/lua/?/init.lua;%s/spec/?.lua;;";\n'):format(scripts.root, scripts.root, scripts.root) ..
  ('  lua_package_cpath "%s/build/luajit/?.so;;";'):format(scripts.root)

local CONF = [[
%(modules)
%(user)
worker_processes %(workers);
pid nginx.pid;
error_log error.log notice;
%(main)
events { worker_connections 2048; }
http {
  access_log off;
  keepalive_timeout 0;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  %(lua)
  init_worker_by_lua_block {
    local done, why = pcall(function()
      %(init_worker)
    end)
    local ffi = require "ffi"
    ffi.cdef "int hold(const char *path, int flags) __asm__(\"open\");"
    ffi.C.hold("%(folder)/events", 1)      -- until the process ends: Lua would close it before the store
    local events = io.open("%(folder)/events", "a")
    events:write(done and "worker " .. ngx.worker.pid() or "failed: " .. tostring(why), "\n")
    events:close()
  }
  %(http)
  server {
    listen unix:%(socket);
    %(server)
  }
}
]]

local function fill(text, values)
  return (text:gsub("%%%(([%w_]+)%)", function(name) return values[name] or "" end))
end

-- When the spec dies, its server is ended.
local RUN = [[
cd '%s' && mkfifo events && '%s' -p "$PWD" -c nginx.conf 2>&1 || exit
( trap '' INT TERM HUP
  while [ -e events ] && kill -0 $PPID; do sleep 0.2; done
  kill $(cat nginx.pid) ) > /dev/null 2>&1 &
exec cat events
]]

--- Starts nginx, and returns when all its workers have. `conf` has parts of the configuration: main, init_worker, http, server, and the
--- number of workers; %(folder) in them is the server's folder.
function server.start(conf)
  local folder = support.foreign() .. "nginx"
  disk.run("mkdir '" .. folder .. "'")
  local self = setmetatable({ folder = folder, socket = folder .. "/socket", count = conf.workers or 4 }, server)
  local user = trim(scripts.shell "id -u") == "0" and "user root;" or ""
  local values = { modules = modules, user = user, lua = LUA, workers = self.count, folder = folder, socket = self.socket }
  for name, text in pairs(conf) do values[name] = text end
  disk.write(folder .. "/nginx.conf", fill(fill(CONF, values), values))
  self.pipe = assert(io.popen(RUN:format(folder, binary)))
  self.pids = self:started(self.count)
  return self
end

--- Waits for `n` more workers to start; returns their process ids.
function server:started(n)
  local pids, said = {}, {}
  while #pids < n do
    local line = self.pipe:read "*l"
    said[#said + 1] = line
    if not line or line:find "^failed" then error("nginx does not start:\n" .. table.concat(said, "\n") .. self:log()) end
    pids[#pids + 1] = line:match "^worker (%d+)$"
  end
  return pids
end

function server:log() return disk.exists(self.folder .. "/error.log") and disk.read(self.folder .. "/error.log") or "" end

--- The lines of the error log that tell of errors or worse.
function server:errors()
  local lines = {}
  for line in self:log():gmatch "[^\n]+" do
    if line:find "%[error%]" or line:find "%[crit%]" or line:find "%[alert%]" or line:find "%[emerg%]" then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n")
end

function server:master() return trim(disk.read(self.folder .. "/nginx.pid")) end

function server:signal(name, pid) assert(disk.run(("kill -%s %s"):format(name, pid or self:master())) == 0) end

--- Reads the configuration again, and returns when the new workers have started; the old ones may live on.
function server:reload()
  self:signal "HUP"
  self.pids = self:started(self.count)
end

--- Another master with workers of its own takes the place of this one; returns when this one is gone.
function server:upgrade()
  local old = self:master()
  self:signal "USR2"
  self.pids = self:started(self.count)
  self:signal("QUIT", old)
  local gone = "timeout 20 sh -c 'while [ -e \"%s/nginx.pid.oldbin\" ]; do sleep 0.01; done'"
  assert(disk.run(gone:format(self.folder)) == 0, "the old master stays")
end

--- Kills a worker, and returns when another has taken its place.
function server:kill_worker(i)
  self:signal("KILL", self.pids[i])
  self.pids[i] = self:started(1)[1]
end

local function curl(self, options, url)
  return ("curl -s -S --no-progress-meter --max-time 60 --unix-socket '%s' %s 'http://nginx%s'"):format(self.socket, options or "", url)
end

--- The body of a response.
function server:get(url, options) return scripts.shell(curl(self, options, url) .. " 2>&1") end

--- The status of a response, as a number.
function server:status(url, options)
  return tonumber(scripts.shell(curl(self, "-o /dev/null -w '%{http_code}' " .. (options or ""), url)))
end

--- Begins a request; the pipe gives its body as it comes.
function server:begin(url, options) return assert(io.popen(curl(self, "-N " .. (options or ""), url) .. " 2>&1")) end

local MANY = 500                          -- requests at a time: curl begins slowly with more

--- Asks url<n> for n = 1, 2, ... with `parallel` requests at a time, from now until the function that is returned is called. That returns
--- the bodies as one text, the number of requests, and what went wrong with some.
function server:load(url, parallel)
  local flag, out, err = self.folder .. "/load", self.folder .. "/load.out", self.folder .. "/load.err"
  disk.write(flag, "")
  local options = ("-Z --parallel-immediate --parallel-max %d"):format(parallel)
  local request = curl(self, options, url) .. ("\"[$n-$((n + %d))]\""):format(MANY - 1)
  local loop = "n=1; while [ -e '%s' ]; do %s; n=$((n + %d)); done > '%s' 2> '%s'; echo $((n - 1))"
  local pipe = assert(io.popen(loop:format(flag, request, MANY, out, err)))
  return function()
    os.remove(flag)
    local count = tonumber(pipe:read "*l")
    pipe:close()
    return disk.read(out), count, disk.read(err)
  end
end

--- Ends it in order, and waits until its last worker is gone. May be called again.
function server:stop()
  if not self.pipe then return end
  if disk.exists(self.folder .. "/nginx.pid") then self:signal "QUIT" end
  self.pipe:read "*a"
  self.pipe:close()
  self.pipe = nil
end

return server

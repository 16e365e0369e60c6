-- What it costs a request of nginx that a record of it is kept: by Sediment, and by what else people use, beside the same handler that
-- keeps none. All ways in turn, another one first in each round; medians, and medians of the ratios within a round.
--     nginx.lua [SECONDS [ROUNDS [DIR]]]
--
-- Requests per second and latency are wrk's, which runs beside nginx. The processor time of the workers, all their threads counted, is the
-- steadier figure: what else runs on the machine hardly touches it. After each turn there must be as many records as nginx has had
-- requests.
local sediment = require "sediment"
local disk = require "disk"
local scripts = require "scripts"
local server = require "nginx.server"
local support = require "support"
local ways = require "nginx_ways"

local SECONDS, ROUNDS = tonumber(arg[1]) or 1, tonumber(arg[2]) or 15
local CONNECTIONS, ADDRESS = 32, "127.0.0.1:18643"
local WAIT = 200                          -- tenths of a second for what is kept later than the request

local function shell(command, ...) return scripts.shell(command:format(...)) end

local missing = server.missing or disk.run "command -v wrk > /dev/null" ~= 0 and "needs wrk"
if missing then
  print("nginx: " .. missing)
  os.exit(1)
end

local folder = shell("cd '%s' && pwd", arg[3] or "build/bench/data"):gsub("\n", "") .. "/nginx"
assert(disk.run(("rm -rf '%s' && mkdir '%s'"):format(folder, folder)) == 0)

local HTTP = [[
  %s
  server {
    listen ADDRESS;
    keepalive_timeout 60;
    keepalive_requests 1000000000;
    %s
  }
]]

local SERVER = [[
    location = /status { stub_status; }
    location = /lmdb { content_by_lua_block { ngx.print(pcall(require, "resty.lmdb")) } }
]]

-- One processor is left to wrk.
local workers = math.max(1, math.min(2, tonumber(shell "nproc") - 1))

local function start(list)
  local locations = {}
  for i, way in ipairs(list) do locations[i] = ways.location(way) end
  local function filled(text) return (text:gsub("DIR", folder):gsub("ADDRESS", ADDRESS)) end
  return server.start {
    workers = workers,
    init_worker = filled(ways.init_worker),
    http = filled(HTTP:format(ways.http, table.concat(locations, "\n    "))),
    server = SERVER,
  }
end

-- ----------------------------------------------------------------------------------------------------------------------------- measuring

local nginx, asked = nil, 0

-- The requests that nginx has had, without ours.
local function requests()
  asked = asked + 1
  return tonumber(nginx:get("/status"):match "requests%s+%d+ %d+ (%d+)") - asked
end

-- Microseconds on a processor: the first number of each thread's schedstat, which counts nanoseconds.
local function cpu()
  local sum = 0
  for _, pid in ipairs(nginx.pids) do
    for ns in shell("cat /proc/%s/task/*/schedstat", pid):gmatch "(%d+) %d+ %d+\n" do sum = sum + ns / 1000 end
  end
  return sum
end

local function wrk(way, seconds)
  local said = shell("wrk -t1 -c%d -d%ds -s bench/nginx_load.lua http://%s/%s 2>&1", CONNECTIONS, seconds, ADDRESS, way.path)
  local responses, took, median, late, failed = said:match "\nsummary (%d+) (%S+) (%S+) (%S+) (%d+)"
  assert(failed == "0", said)
  return tonumber(responses), tonumber(took), tonumber(median), tonumber(late)
end

-- Requests of a way since nginx had had `before`.
local function requests_since(before, way) return (requests() - before) / (way.requests or 1) end

-- Some ways keep the last records a while after wrk has gone.
local function check_kept(way, before)
  if not way.kept then return end
  local wanted, kept
  for _ = 1, WAIT do
    wanted, kept = requests_since(before, way), way.kept(folder) - (way.had or 0)
    if kept == wanted then
      way.had = (way.had or 0) + kept
      return
    end
    shell "sleep 0.1"
  end
  error(("%s: %s requests, %s records"):format(way.name, wanted, kept))
end

local function turn(way, seconds)
  local before, cpu_before = requests(), cpu()
  local responses, took, median, late = wrk(way, seconds)
  local used, had = cpu() - cpu_before, requests_since(before, way)
  assert(had >= responses and had <= responses + CONNECTIONS, ("wrk counts %s responses, nginx %s requests"):format(responses, had))
  check_kept(way, before)
  return { rate = responses / took, median = median, late = late, cpu = used / had }
end

-- ------------------------------------------------------------------------------------------------------------------------------ printing

local function median_of(rounds, f)
  local values = {}
  for i, round in ipairs(rounds) do values[i] = f(round, i) end
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local function show_way(way, none, handler)
  local function column(f) return median_of(way.turns, f) end
  print(("%-36s %10.0f %8.3f %8.3f %8.0f %8.0f %8.2f %8.2f"):format(way.name,
    column(function(t) return t.rate end),
    column(function(t, i) return t.rate / none[i].rate end),
    column(function(t, i) return t.rate / handler[i].rate end),
    column(function(t) return t.median end),
    column(function(t) return t.late end),
    column(function(t) return t.cpu end),
    column(function(t, i) return t.cpu - handler[i].cpu end)))
end

-- "of it" and "more": beside the same handler that keeps nothing.
local function show(list)
  local turns = {}
  for _, way in ipairs(list) do turns[way.path] = way.turns end
  print(("%-36s %10s %8s %8s %8s %8s %8s %8s"):format("kept", "requests/s", "of none", "of it", "50% us", "99% us", "CPU us", "more"))
  for _, way in ipairs(list) do show_way(way, turns.none, turns[way.handler]) end
end

-- ------------------------------------------------------------------------------------------------------------------------------- running

local function measure(list)
  for _, way in ipairs(list) do
    turn(way, 1)                          -- compiles what is hot
    way.turns = {}
  end
  for round = 1, ROUNDS do
    for i = 1, #list do
      local way = list[(round + i) % #list + 1]
      way.turns[round] = turn(way, SECONDS)
    end
  end
  assert(nginx:errors() == "", nginx:errors())
  print(("nginx, workers: %d; wrk with %d connections, %d rounds of %d s"):format(workers, CONNECTIONS, ROUNDS, SECONDS))
  show(list)
  print("lua-resty-lmdb: " .. (nginx:get("/lmdb"):find "^true" and "is there, but not measured" or "not available"))
end

local store = assert(sediment.open(folder .. "/store", { background = false }))
local list = ways.list(store)
nginx = start(list)
local done, why = xpcall(measure, debug.traceback, list)
nginx:stop()
local report = assert(store:verify())
store:close()
support.cleanup()
disk.run("rm -rf '" .. folder .. "'")
if not (done and report.ok) then
  io.stderr:write(done and "a record is damaged" or why, "\n")
  os.exit(1)
end

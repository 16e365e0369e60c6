-- A real nginx under load, reloaded, upgraded, its workers killed, for as long as it is told: what was acknowledged must be there once, at
-- its offset, and what each worker follows must have no gap.
--     make nginx SECONDS=60 SEED=1
local ledger = require "nginx.ledger"
local server = require "nginx.server"
local support = require "support"

local seconds = tonumber(arg[1]) or 60
math.randomseed(tonumber(arg[2]) or 1)
if server.missing then
  print("nginx: " .. server.missing)
  os.exit(1)
end

local PARTITIONS = 3
local path = support.path()
local topic, nginx

local INIT_WORKER = [[
  local store = assert(require "resty.sediment".open("%s"))
  topic = assert(store:topic "t")
  for p = 0, topic:partitions() - 1 do
    ngx.timer.at(0, function()
      local seen
      for offset in topic:records { partition = p, from = "latest", follow = true } do
        if seen and offset ~= seen + 1 then ngx.log(ngx.ERR, "partition ", p, ": offset ", offset, " follows ", seen) end
        seen = offset
      end
    end)
  end
]]

-- Every other request waits for the disk.
local SERVER = [[
  location /append { content_by_lua_block {
    local key = ngx.var.arg_key
    local offset, message = topic:append(key, ngx.worker.pid(), { sync = key:find "[02468]$" ~= nil })
    if not offset then
      ngx.status = 500
      return ngx.say(message)
    end
    ngx.say(key, " ", offset)
  } }
]]

local function start()
  topic = assert(support.open(path, { background = true }):topic("t", { segment_bytes = 30000, partitions = PARTITIONS }))
  nginx = server.start { main = "worker_shutdown_timeout 300ms;", init_worker = INIT_WORKER:format(path), server = SERVER }
end

local counts = { reloads = 0, killed = 0, upgrades = 0 }

local function disturb()
  local n = math.random(10)
  if n <= 5 then
    nginx:reload()
    counts.reloads = counts.reloads + 1
  elseif n <= 9 then
    nginx:kill_worker(math.random(4))
    counts.killed = counts.killed + 1
  else
    nginx:upgrade()
    counts.upgrades = counts.upgrades + 1
  end
end

local function errors_but_kills()
  local lines = {}
  for line in nginx:errors():gmatch "[^\n]+" do
    if not line:find "exited on signal 9" then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n")
end

local function soak()
  local finish, stop = nginx:load("/append?key=", 48), os.time() + seconds
  while os.time() < stop do
    local p = math.random(PARTITIONS) - 1
    assert(topic:wait(topic:latest(p) + math.random(100), 30000, p), "nothing was appended for 30 seconds")
    disturb()
  end
  local said, requests = finish()
  local acknowledged, n = ledger.of(said)
  local there = ledger.check(topic, acknowledged)
  nginx:stop()
  local errors = errors_but_kills()
  assert(errors == "", errors)
  print(("%d reloads, %d workers killed, %d upgrades"):format(counts.reloads, counts.killed, counts.upgrades))
  print(("%d requests, %d acknowledged: each is there once, as are %d whose answer was lost"):format(requests, n, there - n))
end

-- Ctrl-C, too, leaves nothing behind.
start()
local done, why = pcall(soak)
nginx:stop()
support.cleanup()
if not done then
  print("nginx: " .. tostring(why))
  os.exit(1)
end

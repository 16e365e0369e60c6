-- The product's half of survivors: imports what Kafka wrote and cleans it, round by round.
--     lua survivors.lua < plan
-- A line of the plan: "case SOURCE STORE CONFIG=VALUE ...", "round CLOCK clean|idle|purge SNAPSHOT KEY=VALUE ..." (the records that are
-- appended first, as one batch each; a value "-" is a tombstone). After each round the store is closed and copied to SNAPSHOT, with
-- what readers see beside it.
local sediment = require "sediment"

local clock, store, path, topic = 0, nil, nil, nil

local function sh(...)
  local command = string.format(...)
  local ok = os.execute(command)
  assert(ok == true or ok == 0, command)
end

local function open()
  store = assert(sediment.open(path, { background = false, clock = function() return clock end }))
end

local function text(s)
  return s == nil and "-" or "=" .. s
end

local function list(file, isolation)
  local f = assert(io.open(file, "w"))
  for offset, key, value, timestamp in topic:records { isolation = isolation } do
    f:write(string.format("%d\t%d\tdata\t%s\t%s\n", offset, timestamp, text(key), text(value)))
  end
  f:close()
end

local function list_table(file)
  local f, keys = assert(io.open(file, "w")), {}
  local state = assert(store:table "t")
  for key, value in state:pairs() do keys[#keys + 1] = key .. "=" .. value end
  table.sort(keys)
  f:write(table.concat(keys, "\n"), "\n")
  f:close()
  state:close()
end

local function settings(words)
  local config = {}
  for name, value in words:gmatch "(%S+)=(%S+)" do config[name] = tonumber(value) or value end
  return config
end

local function case(source, target, config)
  path = target
  open()
  topic = assert(store:topic("t", settings(config)))
  print("end", (assert(store:import("t", source))))
  store:close()
end

local function round(now, how, snapshot, records)
  clock = tonumber(now)
  open()
  topic = assert(store:topic "t")
  for key, value in records:gmatch "(%S+)=(%S+)" do
    assert(topic:append_batch { { key = key, value = value ~= "-" and value or nil } })
  end
  assert(topic:roll())
  if how ~= "idle" then
    local report = assert(topic:compact { force = true })
    assert(report.corrupt == 0)
  end
  sh("mkdir -p '%s'", snapshot)
  list(snapshot .. "/uncommitted", "uncommitted")
  list(snapshot .. "/committed", "committed")
  list_table(snapshot .. "/table")
  assert(store:close())
  sh("cp -a '%s/.' '%s/'", path, snapshot)
end

for line in io.lines() do
  local source, target, config = line:match "^case (%S+) (%S+)(.*)$"
  if source then case(source, target, config)
  else round(line:match "^round (%S+) (%S+) (%S+)(.*)$") end
end

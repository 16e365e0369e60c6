-- One turn of bench/kafka, or what its turns came to.
--     kafka.lua records|kcat|async|batch|ratios COUNT FOLDER
local sediment = require "sediment"
local core = require "sediment.core"

local what, count, folder = arg[1], tonumber(arg[2]), arg[3]
local SERVERS = os.getenv "SEDIMENT_CLUSTER"
local RECORDS, FIGURES = folder .. "/records", folder .. "/figures"
local VALUE = ("v"):rep(92)
local BATCH = 1000

local function key(i) return ("k%07d"):format(i) end

local function fresh_topic(store)
  return assert(store:topic(("%s-%.0f"):format(what, core.monotonic_ms()), {}))
end

-- Milliseconds of f and of the processor: of this process, or of the children that it starts.
local function timed(f)
  local began, cpu = core.monotonic_ms(), os.clock()
  local children = f()
  return core.monotonic_ms() - began, children or 1000 * (os.clock() - cpu)
end

local function append_async(store, topic)
  for i = 1, count do
    local p, message, code = topic:append_async(key(i), VALUE)
    while not p do
      assert(code == "busy", message)
      store:deliver(100)
      p, message, code = topic:append_async(key(i), VALUE)
    end
  end
  assert(topic:flush())
end

local function append_batches(topic)
  local batch = {}
  for from = 0, count - 1, BATCH do
    for i = 1, BATCH do batch[i] = { key = key(from + i), value = VALUE } end
    assert(topic:append_batch(batch))
  end
end

-- POSIX's time tells user and system seconds.
local function kcat(topic_name)
  local command = "{ time -p kcat -P -b %s -t %s -K: -X acks=all -X enable.idempotence=true -X linger.ms=5 < %s 2> /dev/null; } 2>&1"
  local p = io.popen(("bash -c '%s'"):format(command:format(SERVERS, topic_name, RECORDS)))
  local said = p:read "*a"
  p:close()
  return 1000 * (tonumber(said:match "user ([%d.]+)") + tonumber(said:match "sys ([%d.]+)"))
end

local function write_records()
  local f = assert(io.open(RECORDS, "w"))
  for i = 1, count do f:write(key(i), ":", VALUE, "\n") end
  f:close()
end

local function turn()
  local store = assert(sediment.open("kafka://" .. SERVERS, { timeout_ms = 120000 }))
  local topic = fresh_topic(store)
  assert(topic:append("k", "v", { partition = 0 }))          -- the topic has a leader, and the producer's number is given out
  local name = tostring(topic):match "%((.*)%)"
  local ways = {
    kcat = function() return kcat(name) end,
    async = function() append_async(store, topic) end,
    batch = function() append_batches(topic) end,
  }
  local ms, cpu = timed(ways[what])
  assert(topic:latest() == count + 1, "records are missing")
  assert(store:delete_topic(name))
  store:close()
  local who = what == "kcat" and what or what .. " " .. (rawget(_G, "jit") and "LuaJIT" or _VERSION)
  local f = assert(io.open(FIGURES, "a"))
  f:write(("%s\t%.0f\t%.0f\n"):format(who, ms, cpu))
  f:close()
  print(("%-16s %8.0f records/s %8.2f us of processor each"):format(who, 1000 * count / ms, 1000 * cpu / count))
end

local function median(list) table.sort(list) return list[math.ceil(#list / 2)] end

-- Within a round each has run under about the same load: medians of the ratios to its kcat.
local function ratios()
  local of, order, base = {}, {}, nil
  for who, ms, cpu in io.open(FIGURES):read "*a":gmatch "([^\t\n]+)\t(%d+)\t(%d+)\n" do
    local now = { ms = tonumber(ms), cpu = tonumber(cpu) }
    if who == "kcat" then base = now end
    if not of[who] then of[who], order[#order + 1] = { rate = {}, ms = {}, cpu = {} }, who end
    table.insert(of[who].rate, count / now.ms)
    table.insert(of[who].ms, base.ms / now.ms)
    table.insert(of[who].cpu, base.cpu / now.cpu)
  end
  print "\nmedians           thousand/s    of kcat    of kcat by processor time"
  for _, who in ipairs(order) do
    print(("%-16s %11.0f %10.2f %10.2f"):format(who, median(of[who].rate), median(of[who].ms), median(of[who].cpu)))
  end
end

if what == "records" then write_records()
elseif what == "ratios" then ratios()
else turn() end

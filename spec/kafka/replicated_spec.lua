-- Three brokers, topics with three replicas of which two must be in sync; leaders are killed -9 under load. spec/kafka/replicated starts
-- the brokers and runs this. What is true is in ledgers beside the brokers, which load.lua writes.
local sediment = require "sediment"
local core = require "sediment.kafka.core"
local disk = require "disk"
local scripts = require "scripts"

local SERVERS = assert(os.getenv "SEDIMENT_CLUSTER", "run spec/kafka/replicated")
local BROKER, DIR = os.getenv "SEDIMENT_BROKER", os.getenv "SEDIMENT_BROKER_DIR"
local PATH = "kafka://" .. SERVERS
local NODES, KILLS = 3, 4
local SLACK_MS = 2000                     -- a call ends within its store's timeout_ms and this; two processors run all of it

local made = 0
local function fresh(what)
  made = made + 1
  return ("%s-%.0f-%d"):format(what, core.monotonic_ms(), made)
end

local function broker(...)
  local command = { "'" .. BROKER .. "'", ... }
  table.insert(command, 3, "'" .. DIR .. "'")
  assert.equal(0, disk.run(table.concat(command, " ") .. " > /dev/null 2>&1"), table.concat(command, " "))
end

local function await(seconds, what, f)
  local until_ms = core.monotonic_ms() + 1000 * seconds
  local found, why
  repeat
    found, why = f()
    if found then return found end
    disk.run "sleep 0.2"
  until core.monotonic_ms() > until_ms
  error(("not within %d s: %s (%s)"):format(seconds, what, tostring(why)))
end

-- Of each partition of a topic { leader = node, in_sync = number }.
local function places(topic)
  local list = {}
  local said = scripts.shell(("kcat -b %s -L -t '%s' -m 10 2> /dev/null"):format(SERVERS, topic))
  for p, leader, replicas in said:gmatch "partition (%d+), leader (%-?%d+), replicas: [%d,]+, isrs: ([%d,]*)" do
    list[tonumber(p)] = { leader = tonumber(leader), in_sync = select(2, replicas:gsub("%d+", "")) }
  end
  return list
end

local function whole(...)
  for _, topic in ipairs { ... } do
    await(60, topic .. " is whole again", function()
      local list, n = places(topic), 0
      for _, place in pairs(list) do n = n + (place.leader > 0 and place.in_sync == NODES and 1 or 0) end
      return list[0] and n == #list + 1
    end)
  end
end

local function kill(node) broker("kill", node) end
local function restart(node) broker("restart", node) end

local function open(timeout_ms) return assert(sediment.open(PATH, { timeout_ms = timeout_ms })) end

local function topic_of(store, name, config)
  config.replication, config["min.insync.replicas"] = NODES, config["min.insync.replicas"] or 2
  return assert(store:topic(name, config))
end

-- ------------------------------------------------------------------------------------------------------------------------- processes

local folder, running

local function start(role, name, topic, timeout_ms)
  local command = ("%s spec/kafka/load.lua %s '%s' %s '%s' %d '%s' 2> '%s/%s.err'"):format(disk.lua(), role, PATH, name, topic,
    timeout_ms, folder, folder, name)
  running[name] = assert(io.popen(command))
end

-- Tells processes to end, and waits for them.
local function stop(...)
  for _, name in ipairs { ... } do disk.write(folder .. "/stop-" .. name, "") end
  for _, name in ipairs { ... } do
    if running[name] then running[name]:close() end
    running[name] = nil
  end
end

-- What a process has written down: { outcome, ms, partition, offset, last, key, value } each.
local function ledger_of(name)
  local list = {}
  if not disk.exists(folder .. "/" .. name) then return list end
  for line in disk.read(folder .. "/" .. name):gmatch "([^\n]+)\n" do
    local outcome, ms, p, offset, key, value = line:match "^(%S+) (%d+) (%S+) (%S+) (%S+) (%S+)$"
    list[#list + 1] = { outcome = outcome, ms = tonumber(ms), partition = tonumber(p), offset = tonumber(offset:match "^%d+"),
                        last = tonumber(offset:match "%-(%d+)$"), key = key, value = value }
  end
  return list
end

-- The last that processes have noted, and complained of, for a failure's message.
local function told(...)
  local text = ""
  for _, name in ipairs { ... } do
    local lines = "tail -n 3 '" .. folder .. "/" .. name .. "'; tail -n 12 '" .. folder .. "/" .. name .. ".err'"
    text = text .. "\n" .. name .. ":\n" .. scripts.shell(lines)
  end
  return text
end

local function done(name)
  local n = 0
  for _, entry in ipairs(ledger_of(name)) do n = n + (entry.outcome == "ok" and 1 or 0) end
  return n
end

-- Waits until each has something to tell that went well since now.
local function go_on(...)
  local before = {}
  for _, name in ipairs { ... } do before[name] = done(name) end
  for name, n in pairs(before) do await(40, name .. " goes on", function() return done(name) > n end) end
end

-- That its calls ended in time, each with one of these outcomes, and that it ended when it was told to.
local function behaved(name, timeout_ms, outcomes)
  local list = ledger_of(name)
  local complaint = disk.read(folder .. "/" .. name .. ".err")
  local allowed = " end " .. outcomes .. " "
  for _, entry in ipairs(list) do
    assert.is_true(entry.ms <= timeout_ms + SLACK_MS, ("%s: a call of %d ms"):format(name, entry.ms))
    assert.truthy(allowed:find(" " .. entry.outcome .. " ", 1, true), name .. ": " .. entry.outcome .. "\n" .. complaint)
  end
  assert.equal("end", list[#list].outcome, complaint)
  return list
end

-- ---------------------------------------------------------------------------------------------------------------------------- judging

-- The log by partition and offset, and where each record stands; nothing may be there twice, or out of its writer's order.
local function read_log(topic)
  local log, found, latest = {}, {}, {}
  for p = 0, topic:partitions() - 1 do
    log[p] = {}
    for offset, key, value, _, headers in topic:records { partition = p } do
      local mark = headers[1][2]
      assert.is_nil(found[mark], mark .. " is there twice")
      local writer, n = mark:match "^(.*):(%d+)$"
      local of = writer .. "/" .. p
      assert.is_true(tonumber(n) > (latest[of] or 0), mark .. " is out of order")
      latest[of], found[mark] = tonumber(n), { partition = p, offset = offset }
      log[p][offset] = { key = key, value = value, mark = mark }
    end
  end
  return log, found
end

local function is_there(entry, found)
  local place = found[entry.value]
  assert.truthy(place, entry.value .. " was acknowledged, and is not there")
  assert.equal(entry.partition, place.partition, entry.value)
  if entry.last then assert.is_true(place.offset >= entry.offset and place.offset <= entry.last, entry.value)
  else assert.equal(entry.offset, place.offset, entry.value) end
end

local function count_there(entries, found)
  local n = 0
  for _, entry in ipairs(entries) do
    if entry.outcome == "ok" then
      is_there(entry, found)
      n = n + 1
    end
  end
  return n
end

-- What members were given, together: { [mark] = true }; each as it is in the log.
local function seen_by(log, ...)
  local seen = {}
  for _, name in ipairs { ... } do
    for _, entry in ipairs(ledger_of(name)) do
      if entry.outcome == "ok" then
        assert.equal(log[entry.partition][entry.offset].mark, entry.value)
        seen[entry.value] = true
      end
    end
  end
  return seen
end

local function contents(state)
  local all = {}
  for key, value in state:pairs() do all[key] = value end
  return all
end

-- ---------------------------------------------------------------------------------------------------------------------------- the tests

describe("three brokers", function()
  before_each(function() folder, running = scripts.directory(), {} end)
  after_each(function()
    for name in pairs(running) do stop(name) end
    for node = 1, NODES do
      if disk.exists(DIR .. "/" .. node .. "/killed") then restart(node) end
    end
    scripts.remove(folder)
  end)

  it("whose leaders are killed lose nothing acknowledged and have nothing twice", function()
    local store = open(20000)
    finally(function() store:close() end)
    local name, changes = fresh "ledger", fresh "changes"
    local topic = topic_of(store, name, { partitions = 2 })
    topic_of(store, changes, { partitions = 2, cleanup_policy = "compact", segment_ms = "3s", min_cleanable_dirty_ratio = 0.01 })
    local state = assert(store:table(changes))
    start("append", "patient", name, 30000)
    start("append", "hasty", name, 3000)
    start("batch", "batches", name, 30000)
    start("append", "changer", changes, 30000)
    start("read", "one", name, 10000)
    start("read", "two", name, 10000)
    go_on("patient", "hasty", "batches", "changer")

    for i = 1, KILLS do
      local node = places(i % 3 == 0 and changes or name)[i % 2].leader
      kill(node)
      go_on("patient", "hasty", "batches", "changer")
      assert(state:update())
      restart(node)
      go_on("patient", "hasty", "batches", "changer")
      whole(name, changes)
    end
    stop("patient", "hasty", "batches", "changer")

    local log, found = read_log(topic)
    assert.is_true(count_there(behaved("patient", 30000, "ok"), found) > 200)
    assert.is_true(count_there(behaved("batches", 30000, "ok"), found) > 200)
    assert.is_true(count_there(behaved("hasty", 3000, "ok timeout unavailable"), found) > 100)
    await(60, "the group sees all", function()
      local seen = seen_by(log, "one", "two")
      for mark in pairs(found) do if not seen[mark] then return false, mark .. " is missing" .. told("one", "two") end end
      return true
    end)
    stop("one", "two")
    for _, each in ipairs { "one", "two" } do behaved(each, 10000, "ok timeout unavailable fenced") end

    assert(state:update())
    local anew = assert(store:table(changes))
    local expected = {}
    for _, entry in ipairs(behaved("changer", 30000, "ok")) do
      if entry.outcome == "ok" then expected[entry.key] = tonumber(entry.value:match "%d+$") % 11 ~= 0 and entry.value or nil end
    end
    assert.same(expected, contents(anew))
    assert.same(contents(anew), contents(state))
    assert.is_true(state:count() > 0)
  end)

  for _, stays in ipairs { true, false } do
    it("of which one is left, " .. (stays and "the leader," or "not the leader,") .. " take nothing in time, and go on", function()
      local TIMEOUT_MS = 4000
      local store = open(TIMEOUT_MS)
      finally(function() store:close() end)
      local name = fresh "few"
      local topic = topic_of(store, name, {})
      assert.equal(0, (topic:append("k", "before")))
      local leader, down = places(name)[0].leader, {}
      for i = 0, NODES - 1 do
        local node = (leader - 1 + i) % NODES + 1
        if #down < 2 and (node ~= leader) == stays or #down == 1 then down[#down + 1] = node end
      end
      assert.equal(2, #down)
      for _, node in ipairs(down) do kill(node) end
      for i = 1, 4 do
        local began = core.monotonic_ms()
        local offset, message, code
        if i % 2 == 1 then offset, message, code = topic:append("k", "during " .. i)
        else offset, message, code = topic:append_batch { { key = "k", value = "during " .. i } } end
        assert.is_nil(offset)
        assert.is_true(code == "unavailable" or code == "timeout", message)
        assert.is_true(core.monotonic_ms() - began <= TIMEOUT_MS + SLACK_MS)
      end
      for _, node in ipairs(down) do restart(node) end
      await(40, "appends go on", function() return (topic:append("k", "after")) end)
      local count = {}
      for _, _, value in topic:records() do count[value] = (count[value] or 0) + 1 end
      assert.equal(1, count.before)
      assert.is_true(count.after >= 1)
      for i = 1, 4 do assert.is_true((count["during " .. i] or 0) <= 1) end
    end)
  end

  it("of which too few are in sync take nothing, and say so", function()
    local store = open(12000)
    finally(function() store:close() end)
    local name = fresh "sync"
    local topic = topic_of(store, name, { ["min.insync.replicas"] = 3 })
    assert.equal(0, (topic:append("k", "before")))
    local node = places(name)[0].leader % NODES + 1
    kill(node)
    await(60, "it is out of sync", function() return places(name)[0].in_sync == 2 end)
    local offset, message, code = topic:append("k", "during")
    assert.is_nil(offset)
    assert.equal("unavailable", code, message)
    assert.equal("k=before", require "support".words(topic:records()))
    restart(node)
    await(40, "appends go on", function() return (topic:append("k", "after")) end)
  end)
end)

-- The Lua side of the figures: one-record appends, batches, iteration and state tables beside their floors, in turns, median of five.
--     figures.lua [W1|W2|W3] [DIR]
local floor = require "floor"
local sediment = require "sediment"

local name, dir = arg[1] or "W1", arg[2] or "build/bench/data"
local ROUNDS = 5
local count, live = floor.open(name)
local clock = floor.clock

-- The keys are the workload's; values are taken from a thousand of its own, so that what is measured is the store and not the
-- memory in which a hundred megabytes of Lua strings lie.
local keys, values = {}, {}
for i = 1, count do keys[i] = floor.key(i) end
for i = 1, 1000 do values[i] = select(2, floor.record(i)) end
local function value(i) return values[i % 1000 + 1] end

local function median(list) table.sort(list) return list[math.ceil(#list / 2)] end

local function timed(f, ...)
  local t = clock()
  local result = f(...)
  return clock() - t, result
end

local function fresh(root)
  os.execute("rm -rf '" .. root .. "'")
  local store = assert(sediment.open(root, { background = false }))
  return store, assert(store:topic("w", { cleanup_policy = "compact" }))
end

-- A program's next key is in the cache, since it has just been made: so a thousand keys in turn, by a loop that does little else. The
-- workload's own order, with a cache miss in Lua's memory for each key, is measured as well.
local function append_each(topic)
  for _ = 1, count / 1000 do
    for i = 1, 1000 do topic:append(keys[i], values[i]) end
  end
end

local function append_cold(topic)
  for i = 1, count do topic:append(keys[i], value(i)) end
end

local function append_batches(topic)
  local batch = {}
  for i = 1, 1000 do batch[i] = {} end
  for from = 0, count - 1, 1000 do
    for i = 1, 1000 do batch[i].key, batch[i].value = keys[from + i], value(i) end
    assert(topic:append_batch(batch))
  end
end

local function iterate(topic)
  local n = 0
  for _ in topic:records() do n = n + 1 end
  assert(n == count)
end

local function check(table_)
  assert(table_:count() == live, "the table lost keys")
  for i = count, count - 1000, -1 do assert(table_:get(keys[i]), "a key is missing") end
end

local function open_warm(store) return assert(store:table("w", { snapshot = true, snapshot_every = math.huge })) end

local function go_through(table_)
  local n = 0
  for _ in table_:pairs() do n = n + 1 end
  assert(n == live)
end

-- Seconds for each thing that is done with a snapshot. Its keys become Lua values only as the program goes through them.
local function timed_snapshots(store)
  local t, built = {}, open_warm(store)
  t.write = timed(built.snapshot, built)
  built:close()
  collectgarbage()
  local seconds, warm = timed(open_warm, store)
  t.warm = seconds
  assert(warm:stats().origin == "snapshot")
  t.through = t.warm + timed(go_through, warm)
  check(warm)
  warm:close()
  collectgarbage()
  return t
end

local ours, floors = {}, {}
local function note(list, what, seconds)
  list[what] = list[what] or {}
  table.insert(list[what], seconds)
end

for _ = 1, ROUNDS do
  local root = dir .. "/lua-store"
  local store, topic = fresh(root)
  note(floors, "append", floor.write1(dir, count))
  note(ours, "append", (timed(append_each, topic)))
  store:close()

  store, topic = fresh(root)
  note(floors, "append, cold keys", floor.write1(dir, count))
  note(ours, "append, cold keys", (timed(append_cold, topic)))
  store:close()

  store, topic = fresh(root)
  note(floors, "batch", floor.strings(count))
  note(ours, "batch", (timed(append_batches, topic)))
  note(floors, "iterate", floor.strings(count))
  note(ours, "iterate", (timed(iterate, topic)))
  topic:roll()
  topic:compact { force = true }
  collectgarbage()
  note(floors, "table", (floor.rebuild(dir)))
  collectgarbage()
  local t, built = timed(function() return assert(store:table("w")) end)
  note(ours, "table", t)
  check(built)
  built:close()
  t = timed_snapshots(store)
  for what, seconds in pairs(t) do note(ours, what, seconds) end
  store:close()
  os.execute("rm -rf '" .. root .. "'")
end

local function rate(what, floor_name, goal)
  local a, f = count / median(ours[what]) / 1e6, count / median(floors[what]) / 1e6
  print(string.format("%-28s %10.2f M rec/s  %-12s %10.2f   ratio %.2f (goal %s)", what, a, floor_name, f, a / f, goal))
end

print(string.format("%s from %s, median of %d", name, jit and jit.version or _VERSION, ROUNDS))
rate("append", "write1", "2.00")
rate("append, cold keys", "write1", "-")
rate("batch", "strings", "1.5 M rec/s; 0.60")
rate("iterate", "strings", "-")

local function against_rebuild(label, what, goal)
  local a, f = median(ours[what]) * 1e3, median(floors.table) * 1e3
  print(string.format("%-28s %10.1f ms       %-12s %10.1f   ratio %.2f (goal %s, less is better)", label, a, "rebuild_live", f, a / f,
                      goal))
end

against_rebuild("table, compacted", "table", "2.00")
against_rebuild("table, warm snapshot", "warm", "0.10")
against_rebuild("the same, through all keys", "through", "-")
against_rebuild("a snapshot written", "write", "-")

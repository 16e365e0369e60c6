-- Random histories: whatever is appended, deleted, compacted and retained, and however often a table is closed and opened with its
-- snapshot, it equals one that is built anew from the log; and what on_change has told adds up to the same.
local support = require "support"
local of = require "state"

local contents = of.contents
local SEEDS = tonumber(os.getenv "SEDIMENT_MODEL_SEEDS") or 120

-- A generator of its own: both Luas make the same histories.
local function generator(seed)
  local state = seed * 7919 % 2147483647 + 1
  return function(n)                                         -- 0 .. n - 1
    state = state * 48271 % 2147483647
    return state % n
  end
end

-- What a program has elsewhere by what on_change told it, across restarts: so it hears of keys that vanished while it was away, too.
local function mirror()
  local values, told = {}, {}
  function told.on_change(key, new) values[key] = new end
  function told.contents()
    local list = {}
    for key, value in pairs(values) do list[#list + 1] = key .. "=" .. value end
    table.sort(list)
    return table.concat(list, " ")
  end
  return told
end

local function decode(value) return #value > 2 and value or nil end

local step = {}

-- A partition has keys of its own, however many there come to be: a key in two of them has no one state.
local function place(world, draw)
  local p = draw(world.topic:partitions())
  return "p" .. p .. "k" .. draw(8), { partition = p, timestamp = support.now }
end

function step.append(world, draw)
  for _ = 0, draw(6) do
    local key, options = place(world, draw)
    assert(world.topic:append(key, draw(3) > 0 and ("v"):rep(draw(3)) .. draw(100) or nil, options))
  end
end

function step.roll(world) for p = 0, world.topic:partitions() - 1 do world.topic:roll(p) end end
function step.compact(world) return world.policy == "delete" or assert(world.topic:compact { force = true }) end
function step.time(_, draw) support.now = support.now + draw(60) end
function step.retain(world) assert(world.topic:retain()) end
function step.maintain(world) assert(world.store:maintain()) end

function step.delete_records(world, draw)
  if world.policy == "compact" then return end
  local p = draw(world.topic:partitions())
  local start, log_end = world.topic:earliest(p), world.topic:latest(p)
  assert(world.topic:delete_records(start + draw(log_end - start + 1), p))
end

function step.grow(world, draw)
  if draw(8) == 0 and world.topic:partitions() < 3 then world.topic:alter { partitions = world.topic:partitions() + 1 } end
end

function step.reopen_store(world)
  world:close()
  world.store:close()
  world.store = support.open(world.path)
  world.topic = world.store:topic "t"
  world:open()
end

function step.reopen(world)
  world:close()
  world:open()
end

-- The process dies, and no snapshot is written. What it has told and not written down is told to nobody.
function step.forget(world)
  if not world.told then world:open() end
end

function step.snapshot(world) assert(world.state:snapshot()) end
function step.get(world, draw) world.state:get((place(world, draw))) end

function step.put(world, draw)
  local key, options = place(world, draw)
  assert(world.state:put(key, "put" .. draw(100), options))
end

function step.delete(world, draw)
  local key, options = place(world, draw)
  assert(world.state:delete(key, options))
end

local STEPS = {
  "append", "append", "append", "append", "append", "roll", "roll", "compact", "compact", "time", "time", "retain", "maintain",
  "delete_records", "grow", "reopen_store", "reopen", "reopen", "forget", "snapshot", "get", "get", "put", "delete",
}

local World = {}
World.__index = World

function World:open()
  self.state = assert(self.store:table("t", self.options))
  local origin = self.state:stats().origin
  self.origins[origin] = (self.origins[origin] or 0) + 1
end

function World:close()
  local closed, why = self.state:close()
  assert(closed and not why, why)
end

function World:compare()
  assert(self.state:update())
  local fresh = self.store:table("t", { decode = self.options.decode })
  local expected, count = contents(fresh), fresh:count()
  fresh:close()
  assert.equal(count, self.state:count())
  if self.told then assert.equal(expected, self.told.contents()) end
  if self.looks then assert.equal(expected, contents(self.state)) end
  local sum = 0
  for key, value in expected:gmatch "(%w+)=(%w+)" do
    assert.equal(value, self.state:get(key))
    sum = sum + 1
  end
  assert.equal(count, sum)
end

local function history(seed, origins)
  local draw = generator(seed)
  local policy = ({ "compact", "compact,delete", "delete" })[draw(3) + 1]
  local path = support.path()
  local store = support.open(path)
  local topic = store:topic("t", {
    cleanup_policy = policy, segment_bytes = 300, retention_ms = draw(2) > 0 and 100 or -1, delete_retention_ms = draw(3) * 20,
    min_compaction_lag_ms = 0, file_delete_delay_ms = 0, partitions = draw(2) + 1,
  })
  local told = draw(3) == 0 and mirror() or nil
  local world = setmetatable({
    path = path, store = store, topic = topic, policy = policy, told = told, looks = draw(2) == 0, origins = origins,
    options = {
      snapshot = true, decode = draw(2) == 0 and decode or nil, snapshot_every = draw(4) > 0 and 20 or 2,
      on_change = told and told.on_change,
    },
  }, World)
  world:open()
  local seldom = 1 + draw(12)
  for _ = 1, 60 do
    step[STEPS[draw(#STEPS) + 1]](world, draw)
    if draw(seldom) == 0 then world:compare() end
  end
  world:compare()
  support.cleanup()
end

describe("a state table with a snapshot", function()
  after_each(support.cleanup)

  it("equals one without, whatever happened", function()
    local origins = {}
    for seed = 1, SEEDS do
      local ok, err = pcall(history, seed, origins)
      if not ok then error("seed " .. seed .. ": " .. tostring(type(err) == "table" and err.message or err), 0) end
    end
    if SEEDS < 100 then return end
    assert(origins.snapshot > SEEDS and origins.log > SEEDS, "both are met often")
  end)
end)

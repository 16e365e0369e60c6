-- Random scripts, through the product and through the naive model, compared after every step: what each call answered, every record, every
-- segment with its size, the log start and end, the purge floor, look-ups and a state table that goes on.
local sediment = require "sediment"
local support = require "support"
local model = require "kafka.model.sediment"

local SEEDS = tonumber(os.getenv "SEDIMENT_MODEL_SEEDS") or 300
local T = support.now

-- A generator of its own: both Luas make the same scripts.
local function generator(seed)
  local state = seed * 7919 % 2147483647 + 1
  local function draw(n)                                     -- 0 .. n - 1
    state = state * 48271 % 2147483647
    return state % n
  end
  for _ = 1, 10 do draw(2) end
  return draw
end

local function pick(draw, list) return list[draw(#list) + 1] end

local function random_config(draw)
  local config = {
    ["cleanup.policy"] = pick(draw, { "delete", "compact", "compact", "compact,delete", "compact,delete", "" }),
    ["segment.bytes"] = pick(draw, { 200, 400, 700, 1500, 5000 }),
    ["segment.ms"] = pick(draw, { 1, 300, 2000, 604800000 }),
    ["retention.ms"] = pick(draw, { -1, 0, 500, 3000, 20000 }),
    ["retention.bytes"] = pick(draw, { -1, -1, 0, 300, 1000, 3000 }),
    ["delete.retention.ms"] = pick(draw, { 0, 1, 800, 5000 }),
    ["min.cleanable.dirty.ratio"] = pick(draw, { 0, 0.3, 0.5, 0.9, 1 }),
    ["min.compaction.lag.ms"] = pick(draw, { 0, 0, 0, 400 }),
    ["max.compaction.lag.ms"] = pick(draw, { 604800000, 1000, 4000 }),
    ["message.timestamp.type"] = pick(draw, { "CreateTime", "CreateTime", "CreateTime", "LogAppendTime" }),
    ["max.message.bytes"] = pick(draw, { 1048588, 1048588, 250 }),
    ["message.timestamp.before.max.ms"] = pick(draw, { 604800000000000, 604800000000000, 5000 }),
    ["message.timestamp.after.max.ms"] = pick(draw, { 3600000, 3600000, 100 }),
    ["index.interval.bytes"] = pick(draw, { 4096, 0, 200 }),
  }
  return config
end

local function random_value(draw)
  local kind = draw(10)
  if kind < 3 then return nil end
  return kind == 3 and "" or ("v"):rep(draw(kind == 4 and 150 or 12)) .. draw(100)
end

local function random_record(draw, now)
  local key = pick(draw, { "a", "b", "c", "d", "e", "f", "", "a longer key" })
  local record = { key = draw(25) > 0 and key or nil, value = random_value(draw) }
  local when = draw(12)
  if when < 6 then record.timestamp = now
  elseif when < 9 then record.timestamp = now - draw(6000)
  elseif when == 9 then record.timestamp = -1
  elseif when == 10 then record.timestamp = now + draw(400) end
  if draw(8) == 0 then
    record.headers = {}
    for i = 1, draw(3) do record.headers[i] = { pick(draw, { "h", "", "name" }), pick(draw, { "", "x", nil }) } end
  end
  return record
end

-- ---- one call on both ----

local function text(v)
  if type(v) == "string" then return string.format("%q", v) end
  if type(v) == "number" then return string.format("%.17g", v) end
  if type(v) ~= "table" then return tostring(v) end
  local list = {}
  for key, value in pairs(v) do list[#list + 1] = tostring(key) .. "=" .. text(value) end
  table.sort(list)
  return "{" .. table.concat(list, " ") .. "}"
end

local function answer(first, second, code)
  if first == nil and code then return "nil " .. code end
  return text(first) .. " " .. text(second)
end

local function only(report, ...)
  if type(report) ~= "table" then return report, ... end
  local some = {}
  for _, name in ipairs { ... } do some[name] = report[name] end
  return some
end

-- Each step is given a topic and a store, the product's or the model's, and what was drawn for it.
local step = {}

function step.append(given)
  local r = given.record
  return given.topic:append(r.key, r.value, { timestamp = r.timestamp, headers = r.headers })
end
function step.append_batch(given) return given.topic:append_batch(given.records) end
function step.roll(given) return given.topic:roll() end
function step.delete_records(given) return given.topic:delete_records(given.before) end
function step.alter(given) return given.topic:alter(given.config) end
function step.offset_for_time(given) return given.topic:offset_for_time(given.time) end
function step.retain(given) return only(given.topic:retain(), "segments", "bytes") end

function step.compact(given)
  local report, message, code = given.topic:compact { force = given.force }
  if not report then return nil, message, code end
  return only(report, "partitions", "records_read", "records_written", "tombstones_removed")
end

function step.maintain(given) return only(given.store:maintain(), "segments", "bytes", "rolled", "cleaned") end

function step.reopen(given)
  given.side:close()
  given.side:open()
end

-- A table that goes on equals a rebuild from what the log holds now.
function step.table(given)
  local side, values, list = given.side, {}, {}
  if side.module == model then
    for _, key, value in side.topic:records() do
      if key then values[key] = value end
    end
  else
    side.table = side.table or given.store:table "t"
    side.table:update()
    for key, value in side.table:pairs() do values[key] = value end
  end
  for key, value in pairs(values) do list[#list + 1] = text(key) .. text(value) end
  table.sort(list)
  return table.concat(list, " "), side.table and side.table:count() or #list
end

-- ---- the two sides ----

local function new_side(module, path, config)
  local side = { module = module }
  function side:open()
    self.table = nil
    self.store = assert(module.open(path, { background = false, clock = function() return support.now end }))
    self.topic = assert(self.store:topic("t", config))
    config = nil
  end
  function side:close() self.store:close() end
  side:open()
  return side
end

local function content(side)
  local lines = {}
  local function add(...) lines[#lines + 1] = string.format(...) end
  for offset, key, value, timestamp, headers in side.topic:records() do
    add("%d %s=%s @%d%s", offset, text(key), text(value), timestamp, headers and text(headers) or "")
  end
  add("[%d, %d)", side.topic:earliest(), side.topic:latest())
  return table.concat(lines, "\n")
end

local function floor_of(side)
  return side.module == model and side.topic.state.partitions[1].floor or side.topic:stats().partitions[0].purge_floor
end

local function shape(side)
  local lines = {}
  local segments, start = side.topic:segments(), side.topic:earliest()
  for i, s in ipairs(segments) do
    -- Where the log starts in the middle of a segment the model has no opinion on its state.
    local state = s.base_offset < start and i < #segments and "begun" or s.state
    local line = "segment %d: %d bytes, %d records, newest %d, %s"
    lines[#lines + 1] = string.format(line, s.base_offset, s.size, s.records, s.max_timestamp, state)
  end
  lines[#lines + 1] = "floor " .. floor_of(side)
  return table.concat(lines, "\n")
end

local function compare(what, product, expected)
  if product ~= expected then
    error(string.format("%s\nthe model:\n%s\nthe product:\n%s", what, expected, product), 0)
  end
end

-- ---- scripts ----

local BATCHES = { "append_batch", "append_batch", "append_batch", "append_batch", "append_batch", "append_batch", "roll", "roll",
                  "compact", "compact", "compact", "retain", "maintain", "maintain", "delete_records", "alter",
                  "offset_for_time", "reopen", "table", "table" }
local SINGLES = { "append", "append", "append", "append", "append", "append", "append_batch", "delete_records", "offset_for_time", "reopen",
                  "table" }

local function draw_step(draw, names, end_offset)
  local given = { name = pick(draw, names) }
  if given.name == "append" then given.record = random_record(draw, support.now)
  elseif given.name == "append_batch" then
    given.records = {}
    for i = 1, 1 + draw(6) do given.records[i] = random_record(draw, support.now) end
  elseif given.name == "delete_records" then given.before = draw(end_offset + 3) - 1
  elseif given.name == "offset_for_time" then given.time = support.now - draw(8000) + 400
  elseif given.name == "compact" then given.force = draw(2) == 0
  elseif given.name == "alter" then
    local fresh = random_config(draw)
    fresh["max.compaction.lag.ms"], fresh["min.compaction.lag.ms"] = nil, nil
    local names_of = {}
    for name in pairs(fresh) do names_of[#names_of + 1] = name end
    table.sort(names_of)
    given.config = {}
    for _ = 1, 2 do
      local name = pick(draw, names_of)
      given.config[name] = fresh[name]
    end
  end
  return given
end

local function run_step(side, given)
  local own = { side = side, store = side.store, topic = side.topic }
  for name, value in pairs(given) do own[name] = value end
  return answer(step[given.name](own))
end

local function run_script(path, seed, names, with_segments)
  local draw = generator(seed)
  local config = random_config(draw)
  if not with_segments then config["cleanup.policy"] = pick(draw, { "delete", "compact", "compact,delete" }) end
  support.now = T
  local product, expected = new_side(sediment, path, config), new_side(model, path, config)
  local history = { "config " .. text(config) }
  local ok, err = pcall(function()
    for n = 1, 15 + draw(40) do
      if draw(3) == 0 then support.now = support.now + pick(draw, { 1, 50, 300, 900, 4000 }) end
      local given = draw_step(draw, names, expected.topic:latest())
      history[#history + 1] = string.format("%d at +%d: %s", n, support.now - T, text(given))
      compare("answer", run_step(product, given), run_step(expected, given))
      compare("records", content(product), content(expected))
      if with_segments then compare("segments", shape(product), shape(expected)) end
    end
  end)
  product.store:close()
  if not ok then error(string.format("seed %d: %s\nscript:\n%s", seed, tostring(err), table.concat(history, "\n")), 0) end
end

describe("the model", function()
  after_each(support.cleanup)

  it("agrees on scripts of batches, segment by segment", function()
    local path = support.path()
    for seed = 1, SEEDS do run_script(path .. "b" .. seed, seed, BATCHES, true) end
  end)

  it("agrees on scripts of single records, record by record", function()
    local path = support.path()
    for seed = 1, SEEDS do run_script(path .. "s" .. seed, seed, SINGLES, false) end
  end)
end)

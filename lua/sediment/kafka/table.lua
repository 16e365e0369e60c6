-- State tables of a cluster's topics: sediment/table.lua over a log that is read from a broker.
--
-- A cluster keeps no purge floor, so nothing tells a table that a tombstone was compacted away behind its back; but a table stays open and
-- reads on, and one that is opened reads the whole topic, so it misses none. What it cannot see is a topic that was deleted and made anew
-- under the same name, unless that is shorter.
local core = require "sediment.kafka.core"
local objects = require "sediment.kafka.objects"
local state_table = require "sediment.table"
local table_options = require "sediment.table_options"

local log = { life = core.life }

--- Log start, log end, purge floor (none), and false: how far compaction has rewritten the log is not known.
function log.bounds(topic, p)
  local start, log_end, code = core.bounds(topic, p)
  if not start then return nil, log_end, code end
  return start, log_end, -1, false
end

-- -------------------------------------------------------------------------------------------------------- the last record of each key

local Latest = {}
Latest.__index = Latest

-- All is read before anything is given: each key comes once, with its last record, in the order of offsets.
local function gather(self)
  local offsets, values, keys, inner = {}, {}, {}, self.inner
  while true do
    local offset, key, value = inner:next()
    if offset == nil then
      if key ~= nil then return nil, key, value end
      break
    end
    if key ~= nil then
      if offsets[key] == nil then keys[#keys + 1] = key end
      offsets[key], values[key] = offset, value
    end
  end
  table.sort(keys, function(a, b) return offsets[a] < offsets[b] end)
  self.offsets, self.values, self.keys = offsets, values, keys
  return true
end

function Latest:next()
  if not self.keys then
    local done, message, code = gather(self)
    if not done then return nil, message, code end
  end
  self.i = self.i + 1
  local key = self.keys[self.i]
  if key ~= nil then return self.offsets[key], key, self.values[key] end
end

function Latest:position() return self.inner:position() end
function Latest:close() return self.inner:close() end

--- With `latest`, of each key only the last record comes.
function log.reader(topic, p, from, latest)
  local inner, message, code = core.reader(topic, p, from)
  if not inner then return nil, message, code end
  if not latest then return inner end
  return setmetatable({ inner = inner, i = 0 }, Latest)
end

--- Puts the last value of each key into an empty table: how many have one.
function log.load(reader, values)
  local inner, count = reader.inner, 0
  while true do
    local offset, key, value = inner:next()
    if offset == nil then
      if key ~= nil then return nil, key, value end
      return count
    end
    if key ~= nil then
      local had = values[key] ~= nil
      values[key] = value
      count = count + (value ~= nil and 1 or 0) - (had and 1 or 0)
    end
  end
end

-- ------------------------------------------------------------------------------------------------------------------------------ waiting

local LOOK_MS = 100

-- Whether any of the places has more; nil, message, code.
local function has_news(list)
  for i = 1, #list, 3 do
    local start, log_end, code = core.bounds(list[i], list[i + 1])
    if not start then return nil, log_end, code end
    if log_end > list[i + 2] then return true end
  end
  return false
end

--- { topic, partition, offset, ... }: whether any of them has a record there or behind it, in time.
function log.wait_any(list, timeout_ms)
  local until_ms = core.monotonic_ms() + timeout_ms
  while true do
    local news, message, code = has_news(list)
    local left = until_ms - core.monotonic_ms()
    if news ~= false or left <= 0 or not list[1] then return news, message, code end
    core.idle(core.store_of(list[1]), math.min(left, LOOK_MS))
  end
end

-- ------------------------------------------------------------------------------------------------------------------------------ opening

--- store:table(topic_name [, options]); described in sediment/types.lua.
local function open(store, name, options)
  objects.store(store, "table")
  if type(name) ~= "string" then error("bad argument #1 to 'table' (name: string expected, got " .. type(name) .. ")", 2) end
  options = table_options.take(options)
  if options.snapshot_name then
    return nil, "snapshot: a state table of a cluster's topic is not saved; it reads the topic each time", "unsupported"
  end
  return state_table.open_over(log, false, store, name, options)
end

return { open = open }

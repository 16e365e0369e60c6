-- State tables: a topic's last value of every key, kept current.
--
-- A table reads each partition from a position on and applies record by record. It starts over, by mark and sweep, when going on could
-- miss a deletion. Starting over reads the last record of each key, applies what is new, reads on, and drops the keys that are no longer
-- there.
--
-- Invariants. Others compact and delete at any time, also while a table reads:
--
--   1. The table has of each key the last value below the position, or the log has had a newer record of the key from the position on. A
--      record goes only for a newer one of its key, as a tombstone, or with the log start; reading on makes good for the first.
--   2. Below `checked` no tombstone was missed. Before one goes the purge floor is raised to it, so the floor is asked after the reading:
--      if it is below `checked`, where that reading began, all were there to be read, and `checked` moves up to the position. Else one
--      may have been missed, and the table starts over. While it does, none below the end that it reads to can be missed: the records
--      that the tombstone deletes went before it.
--   3. A record may go, before it is read, for one above the end that the reader has. Before it goes, the end of what may be rewritten is
--      raised above the newer one. So reading is done when the position is there, asked after the reading; not before that a table is
--      current, and keys are swept. (That is invariant 1 with nothing newer from the position on.)
--   4. The log start that a table goes by is the one before it started over. If it has moved when an update begins, the last record of a
--      key may have gone with it, and the table starts over.
--   5. At any moment, also when `decode` or `on_change` raises or yields, `values`, `live` and `positions` agree. A position moves past a
--      record after the record's value was set and before `on_change` hears of it; what was cut short is done again from there.
--   6. One update at a time: another one, from a callback or from a coroutine that runs while a callback yields, is refused, so that what
--      was read before it is never applied after it, and `on_change` hears of the changes one after the other.
local core = require "sediment.core"
local check_store = require("sediment.check").store

local Table = {}
Table.__index = Table
Table.__name = "sediment.table"

local TRIES = 100                         -- how often a partition is looked at again when others overtake the reading

-- ---------------------------------------------------------------------------------------------------------------------------- applying

-- Sets the value of a key and tells on_change. `position` is the partition's position from then on; nil: it stays.
local function apply(self, p, key, value, position)
  if value ~= nil and self.decode then value = self.decode(value, key) end
  if self.closed then return end
  local values, on_change = self.values, self.on_change
  local old = values[key]
  values[key] = value
  if self.homes then self.homes[key] = value ~= nil and p or nil end
  if old == nil and value ~= nil then self.live = self.live + 1
  elseif old ~= nil and value == nil then self.live = self.live - 1 end
  if position then self.positions[p] = position end
  self.changes = self.changes + 1
  if on_change and value ~= old then on_change(key, value, old) end
end

-- From the second partition on it must be known which partition a key is from, or a sweep could not tell whose it is.
local function expect_partitions(self, n)
  if n < 2 or self.homes then return end
  self.homes = {}
  for key in pairs(self.values) do self.homes[key] = 0 end
end

-- ---------------------------------------------------------------------------------------------------------------------------- reading

-- Applies what a reader gives from the position on, and notes in `seen`, if given, which keys have a value.
local function apply_all(self, p, reader, seen)
  local next_record, position = reader.next, self.positions[p] or 0
  while true do
    local offset, key, value = next_record(reader)
    if offset == nil then
      if key ~= nil then return nil, key, value end
      return true
    end
    if seen and key ~= nil and value ~= nil then seen[key] = true end
    if key ~= nil and offset >= position then apply(self, p, key, value, offset + 1) end
    if self.closed then return true end
  end
end

local function follow(self, p)
  local reader, message, code = core.reader(self.topic, p, self.positions[p], false)
  if not reader then return nil, message, code end
  local done
  done, message, code = apply_all(self, p, reader, self.seen[p])
  if done then self.positions[p] = reader:position() end
  reader:close()
  return done, message, code
end

-- Without callbacks, into a table that has nothing yet.
local function load(self, reader)
  local values = {}
  local count, message, code = core.load(reader, values)
  if not count then return nil, message, code end
  self.values, self.live, self.changes = values, count, self.changes + count
  return true
end

-- The first half of starting over; settle does the second.
local function mark(self, p, start, log_end)
  local reader, message, code = core.reader(self.topic, p, start, true)
  if not reader then return nil, message, code end
  self.starts[p] = nil
  if (self.positions[p] or 0) > log_end then self.positions[p] = nil end
  local fresh, done = next(self.values) == nil
  self.seen[p] = not fresh and {} or nil
  if fresh and not (self.decode or self.on_change or self.homes) then done, message, code = load(self, reader)
  else done, message, code = apply_all(self, p, reader, self.seen[p]) end
  if done then
    self.positions[p], self.starts[p] = reader:position(), start
    self.checked[p] = self.positions[p]
  end
  reader:close()
  return done, message, code
end

-- Drops the keys that were not seen since the table began to start over.
local function settle(self, p)
  local seen, gone = self.seen[p], {}
  if not seen then return true end
  for key in pairs(self.values) do
    if not seen[key] and (not self.homes or self.homes[key] == p) then gone[#gone + 1] = key end
  end
  for _, key in ipairs(gone) do apply(self, p, key, nil) end      -- does nothing any more once the table is closed
  self.seen[p] = nil
  return true
end

-- ----------------------------------------------------------------------------------------------------------------------------- updating

-- A log start that moves during this update is left to the next one: else a table that reads slowly might never be done.
local function must_start_over(self, p, start, log_end, floor, has_read)
  local known = self.starts[p]
  return not known or (known ~= start and not has_read) or floor >= self.checked[p] or self.positions[p] > log_end
end

-- Looks and reads by turns, until a look after the reading finds that nothing was missed.
local function update_partition(self, p)
  local has_read = false
  for _ = 1, TRIES do
    local start, log_end, floor, rewritten_end = core.bounds(self.topic, p)
    if not start then return nil, log_end, floor end
    local done, message, code
    if must_start_over(self, p, start, log_end, floor, has_read) then
      done, message, code = mark(self, p, start, log_end)
    else
      local position = self.positions[p]
      self.checked[p] = position
      if position == log_end or (has_read and position >= rewritten_end) then return settle(self, p) end
      done, message, code = follow(self, p)
    end
    if self.closed then return true end
    if done then has_read = true
    elseif code == "offset_out_of_range" then self.starts[p] = nil
    else return nil, message, code end
  end
  return nil, "partition " .. p .. " is compacted or deleted again and again before it is read; try again", "busy"
end

local function update(self)
  local n, message, code = self.topic:partitions()
  if not n then return nil, message, code end
  local before = self.changes
  expect_partitions(self, n)
  for p = 0, n - 1 do
    local done
    done, message, code = update_partition(self, p)
    if not done then return nil, message, code end
    if self.closed then break end
  end
  return self.changes - before
end

local function check_self(self, method, level)
  if getmetatable(self) == Table then return end
  error("bad argument #1 to '" .. method .. "' (sediment.table expected, got " .. type(self) .. "; call it with ':')", level + 1)
end

-- Which tables are being updated: table -> a token that nothing but the update's own stack holds. So a coroutine that is dropped while a
-- callback yields lets go of its table when it is collected.
local updating = setmetatable({}, { __mode = "kv" })

-- `token` lives until here: compiled code would let go of it once it is in the table.
local function leave(self, token, ok, ...)
  if updating[self] == token then updating[self] = nil end
  if not ok then error(..., 0) end
  return ...
end

local function update_alone(self)
  if updating[self] then return nil, "the table is just being updated, by the caller of this callback or in another coroutine", "busy" end
  local token = {}
  updating[self] = token
  return leave(self, token, pcall(update, self))
end

-- Raises at the caller of the method unless self is a table, and open.
local function check(self, method, level)
  level = level or 3
  check_self(self, method, level)
  if self.closed then error("use after close: the table is closed", level) end
  if self.life.closed then error("use after close: the store is closed", level) end
end

-- A number as append converts it.
local function to_key(key)
  local text, message = core.key(key)
  if not text then error("bad argument #1 to 'get' (key: " .. message .. ")", 3) end
  return text
end

--- Reads what has come since. Durable or not, what other processes have appended counts. Does the reading on the calling thread, in a Lua
--- loop: `decode` and `on_change` may yield, and what they raise goes through to the caller and leaves the table in order. One update at a
--- time: from inside a callback, or in another coroutine while one yields, it changes nothing and answers `busy`.
---@return integer? changes number of records applied and keys dropped
---@return string? message
---@return string? code `busy`, `corrupt`, `io`, `unsupported`, `unknown_topic`, `forked`
function Table:update()
  check(self, "update")
  return update_alone(self)
end

--- The value of a key, nil when it has none. Touches no file.
---@param key string|number a number as append converts it: 24 and 24.0 are "24"
---@return any value
function Table:get(key)
  check(self, "get")
  if type(key) ~= "string" then key = to_key(key) end
  return self.values[key]
end

--- Iterates over the live keys and their values, in no order. Update the table after the loop, not inside it. On Lua 5.4 pairs(state) is
--- the same; on LuaJIT, which has no __pairs, it iterates over the inside of the object.
function Table:pairs()
  check(self, "pairs")
  return pairs(self.values)
end

function Table:__pairs()
  check(self, "pairs", 4)
  return pairs(self.values)
end

--- How many keys have a value. Kept at hand, not counted.
---@return integer
function Table:count()
  check(self, "count")
  return self.live
end

--- The position: the offset of the next record that `update` will look at.
---@param p? integer partition, default 0
---@return integer? offset
---@return string? message
---@return string? code `unknown_partition`
function Table:offset(p)
  check(self, "offset")
  local position = self.positions[p or 0]
  if position then return position end
  return nil, "there is no partition " .. tostring(p) .. " in the table", "unknown_partition"
end

--- Lets go of the values. May be called again.
---@return true
function Table:close()
  check_self(self, "close", 2)
  self.closed = true
  self.values, self.homes, self.live = {}, false, 0
  return true
end

Table.__close = Table.close

--- A state is what its topic says: it changes by topic:append alone.
function Table:__newindex(key)
  error("the table " .. self.name .. " has no field '" .. tostring(key) .. "' to set; topic:append gives a key its value", 2)
end

function Table:__tostring()
  return "sediment.table (" .. (self.closed and "closed" or self.name) .. ")"
end

-- ------------------------------------------------------------------------------------------------------------------------------ opening

local OPTIONS = { decode = true, on_change = true }

local function check_options(options)
  if options == nil then return {} end
  if type(options) ~= "table" then error("bad argument #2 to 'table' (table of options expected, got " .. type(options) .. ")", 3) end
  for name, value in pairs(options) do
    if not OPTIONS[name] then error("bad argument #2 to 'table' (unknown option '" .. tostring(name) .. "')", 3) end
    if type(value) ~= "function" then
      error("bad argument #2 to 'table' (" .. name .. ": function expected, got " .. type(value) .. ")", 3)
    end
  end
  return options
end

-- store:table(topic_name [, options]); described in sediment/types.lua.
local function open(store, name, options)
  check_store(store, "table")
  if type(name) ~= "string" then error("bad argument #1 to 'table' (name: string expected, got " .. type(name) .. ")", 2) end
  options = check_options(options)
  local topic, message, code = store:topic(name)
  if code == "unknown_topic" then message = "there is no topic '" .. name .. "'; make it with store:topic(name, {})" end
  if not topic then return nil, message, code end
  local self = setmetatable({
    life = core.life(store), topic = topic, name = name, decode = options.decode, on_change = options.on_change,
    values = {}, live = 0,                -- key -> value; how many there are
    homes = false,                         -- key -> its partition, in topics of several
    positions = {}, checked = {},         -- partition -> next offset to read; up to where no deletion was missed
    starts = {}, seen = {},               -- partition -> log start that the values go by, nil: start over; keys not to be swept
    closed = false,
    changes = 0,                          -- records applied so far
  }, Table)
  local done
  done, message, code = update(self)
  if not done then return nil, message, code end
  return self
end

return { open = open }

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
--      current, and keys are swept. (That is invariant 1 with nothing newer from the position on.) A log that does not tell that end
--      (false: a cluster's) is taken to be read when a second reading, which began behind the end of the first, has come to its end.
--   4. The log start that a table goes by is the one before it started over. If it has moved when an update begins, the last record of a
--      key may have gone with it, and the table starts over.
--   5. At any moment, also when `decode` or `on_change` raises or yields, `values`, `live` and `positions` agree. A position moves past a
--      record after the record's value was set and before `on_change` hears of it; what was cut short is done again from there.
--   6. One update at a time: another one, from a callback or from a coroutine that runs while a callback yields, is refused, so that what
--      was read before it is never applied after it, and `on_change` hears of the changes one after the other.
--   7. A key's value may still lie in the snapshot that the table began with (sediment/table_snapshot.lua). Who looks at `values` for more
--      than one key, or starts over, takes over all of it first.
local core = require "sediment.core"
local check = require "sediment.check"
local table_index = require "sediment.table_index"
local table_options = require "sediment.table_options"
local table_snapshot = require "sediment.table_snapshot"

---@class sediment.table
local Table = {}
Table.__index = Table
Table.__name = "sediment.table"

local TRIES = 100                         -- how often a partition is looked at again when others overtake the reading

-- ---------------------------------------------------------------------------------------------------------------------------- applying

-- Sets the value of a key and tells on_change. `position` is the partition's position from then on; nil: it stays.
local function apply(self, p, key, value, position)
  if self.pace then self.pace(value and #value or 0) end
  if value ~= nil and self.decode then value = self.decode(value, key) end
  if self.indexes then table_index.look(self.indexes, key, value) end
  if self.closed then return end
  local values, on_change = self.values, self.on_change
  local old = values[key]
  if old == nil and self.saved then old = table_snapshot.recall(self, key) end
  if self.indexes then table_index.move(self.indexes, key) end
  values[key] = value
  if self.homes then self.homes[key] = value ~= nil and p or nil end
  if old == nil and value ~= nil then self.live = self.live + 1
  elseif old ~= nil and value == nil then self.live = self.live - 1 end
  if position then self.positions[p] = position end
  self.changes, self.unsaved = self.changes + 1, true
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
  local reader, message, code = self.log.reader(self.topic, p, self.positions[p], false)
  if not reader then return nil, message, code end
  local done
  done, message, code = apply_all(self, p, reader, self.seen[p])
  if done then self.positions[p], self.unsaved = reader:position(), true end
  reader:close()
  return done, message, code
end

-- Without callbacks, into a table that has nothing yet.
local function load(self, reader)
  local values = {}
  local count, message, code = self.log.load(reader, values)
  if not count then return nil, message, code end
  self.values, self.live, self.changes = values, count, self.changes + count
  return true
end

-- The first half of starting over; settle does the second.
local function mark(self, p, start, log_end)
  local reader, message, code = self.log.reader(self.topic, p, start, true)
  if not reader then return nil, message, code end
  self.starts[p] = nil
  if (self.positions[p] or 0) > log_end then self.positions[p] = nil end
  if self.saved then table_snapshot.recall_all(self) end
  local fresh, done = self.live == 0
  self.seen[p], self.unsaved = not fresh and {} or nil, true
  if fresh and not (self.decode or self.on_change or self.homes or self.indexes or self.pace) then done, message, code = load(self, reader)
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

local function is_read(position, rewritten_end, readings)
  if rewritten_end then return readings > 0 and position >= rewritten_end end
  return readings > 1
end

-- Looks and reads by turns, until a look after the reading finds that nothing was missed. `ends` is how far the log was that the reading
-- came to its end in: what is behind the position there, as a transaction that is open, is not to be waited for.
local function update_partition(self, p)
  local readings, known_end = 0, 0
  for _ = 1, TRIES do
    local start, log_end, floor, rewritten_end = self.log.bounds(self.topic, p)
    if not start then return nil, log_end, floor end
    local done, message, code
    if must_start_over(self, p, start, log_end, floor, readings > 0) then
      done, message, code = mark(self, p, start, log_end)
    else
      local position = self.positions[p]
      self.checked[p] = position
      if position == log_end or is_read(position, rewritten_end, readings) then
        self.ends[p] = math.max(position, known_end)
        return settle(self, p)
      end
      done, message, code = follow(self, p)
    end
    if self.closed then return true end
    if done then readings, known_end = readings + 1, log_end
    elseif code == "offset_out_of_range" then self.starts[p] = nil
    else return nil, message, code end
  end
  return nil, "partition " .. p .. " is compacted or deleted again and again before it is read; try again", "busy"
end

-- Of one partition, or of all; returns the number of changes.
local function update(self, only)
  local n, message, code = self.topic:partitions()
  if not n then return nil, message, code end
  local before = self.changes
  expect_partitions(self, n)
  for p = only or 0, only or n - 1 do
    local done
    done, message, code = update_partition(self, p)
    if not done then return nil, message, code end
    if self.closed then break end
  end
  if table_snapshot.is_due(self) and not self.closed then table_snapshot.save(self) end
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

-- Does f(self, ...) as the one who changes the table, or writes it down.
local function alone(self, f, ...)
  if updating[self] then return nil, "the table is just being updated, by the caller of this callback or in another coroutine", "busy" end
  local token = {}
  updating[self] = token
  return leave(self, token, pcall(f, self, ...))
end

-- Raises at the caller of the method unless self is a table, and open.
local function check_open(self, method, level)
  level = level or 3
  check_self(self, method, level)
  if self.closed then error("use after close: the table is closed", level) end
  if self.life.closed then error("use after close: the store is closed", level) end
end

-- A number as append converts it.
local function to_key(key, method)
  if type(key) == "string" then return key end
  local text, message = core.key(key)
  if not text then error("bad argument #1 to '" .. method .. "' (key: " .. message .. ")", 3) end
  return text
end

--- Reads what has come since. Durable or not, what other processes have appended counts. Does the reading on the calling thread, in a Lua
--- loop: `decode`, `on_change` and the functions of indexes may yield, and what they raise goes through to the caller and leaves the table
--- in order. One update at a time: from inside a callback, or in another coroutine while one yields, it changes nothing and answers `busy`.
---@return integer? changes number of records applied and keys dropped
---@return string? message
---@return string? code `busy`, `corrupt`, `io`, `unsupported`, `unknown_topic`, `forked`
function Table:update()
  check_open(self, "update")
  return alone(self, update)
end

-- What wait waits for: a record behind the end that the last update has seen, in any partition.
local function awaited(self)
  local list = {}
  for p = 0, (self.topic:partitions() or 0) - 1 do
    list[#list + 1], list[#list + 2], list[#list + 3] = self.topic, p, self.ends[p] or self.positions[p] or 0
  end
  return list
end

local LOOK_MS = 500                       -- between looks for partitions that were added

local function wait_for_news(self, timeout_ms)
  local until_ms = timeout_ms and core.monotonic_ms() + timeout_ms or math.huge
  while true do
    local left = math.max(0, until_ms - core.monotonic_ms())
    local came, message, code = self.topic:partitions()
    if came then came, message, code = self.log.wait_any(awaited(self), math.min(left, LOOK_MS)) end
    if came ~= false or left <= LOOK_MS then return came, message, code end
  end
end

--- Waits until something new is in any partition of the topic, whoever appended it, and reads it as `update` does. 0: nothing came in time,
--- or nothing that changes a key. Blocks the thread.
---@param timeout_ms? integer without, for ever, but for Ctrl-C
---@return integer? changes
---@return string? message
---@return string? code as update's
function Table:wait(timeout_ms)
  check_open(self, "wait")
  check.timeout("wait", 1, timeout_ms, 2)
  if updating[self] then return alone(self) end
  local came, message, code = wait_for_news(self, timeout_ms)
  if came == nil then return nil, message, code end
  if not came then return 0 end
  return alone(self, update)
end

--- The value of a key, nil when it has none. Touches no file, but for a key whose value is still in the snapshot: damage that has come to
--- that since is raised, as iterators raise.
---@param key string|number a number as append converts it: 24 and 24.0 are "24"
---@return any value
function Table:get(key)
  check_open(self, "get")
  if type(key) ~= "string" then key = to_key(key, "get") end
  local value = self.values[key]
  if value ~= nil or not self.saved then return value end
  if self.saving then return (self.saved:get(key)) end
  return table_snapshot.recall(self, key)
end

-- All of them; while a snapshot is written nothing may move, and only a finalizer could ask.
local function all_values(self)
  if self.saving then error("the table's snapshot is just being written", 2) end
  if self.saved then table_snapshot.recall_all(self) end
  return pairs(self.values)
end

--- Iterates over the live keys and their values, in no order. Update the table after the loop, not inside it. On Lua 5.4 pairs(state) is
--- the same; on LuaJIT, which has no __pairs, it iterates over the inside of the object.
function Table:pairs()
  check_open(self, "pairs")
  return all_values(self)
end

function Table:__pairs()
  check_open(self, "pairs", 4)
  return all_values(self)
end

local function group_of(self, method, name, index_key)
  local group, size = table_index.at(self.indexes, name, index_key)
  if group then return group, size end
  error("bad argument #1 to '" .. method .. "' (there is no index '" .. tostring(name) .. "'; the option index of store:table makes it)", 3)
end

--- Iterates over the keys, and their values, for which the function of an index gave `index_key`, in no order. Update the table after the
--- loop, not inside it.
---@param name string of the index
---@param index_key any
---@return fun(): string?, any iterator
function Table:lookup(name, index_key)
  check_open(self, "lookup")
  local group, values, key = group_of(self, "lookup", name, index_key), self.values, nil
  return function()
    key = next(group, key)
    return key, values[key]
  end
end

--- How many keys have a value; with the name of an index, how many of them have `index_key` there. Kept at hand, not counted.
---@param name? string
---@param index_key? any
---@return integer
function Table:count(name, index_key)
  check_open(self, "count")
  if name == nil then return self.live end
  return (select(2, group_of(self, "count", name, index_key)))
end

--- The position: the offset of the next record that `update` will look at.
---@param p? integer partition, default 0
---@return integer? offset
---@return string? message
---@return string? code `unknown_partition`
function Table:offset(p)
  check_open(self, "offset")
  local position = self.positions[p or 0]
  if position then return position end
  return nil, "there is no partition " .. tostring(p) .. " in the table", "unknown_partition"
end

-- What append refuses is raised at the caller of the method, which has called `write` as the last thing it does.
local function appended(method, ok, offset, ...)
  if ok then return offset, ... end
  if type(offset) ~= "string" then error(offset, 0) end
  local message = offset:gsub("^%S+%.lua:%d+: ", ""):gsub("^bad argument #%d+ to '[^']*'", "bad argument to '" .. method .. "'")
  error(message, 3)
end

-- Reads on until what was appended at `offset` is applied. Readers of committed records end where a transaction begins that is open.
local function read_up_to(self, p, offset)
  local changes, message, code = self.read_on(self, p)
  if not changes then return nil, message, code end
  if self.positions[p] > offset or self.closed then return true end
  return nil, ("a transaction that is open begins at offset %.0f"):format(self.positions[p]), "busy"
end

-- What came before the record is applied before it.
local function write(self, method, key, value, options)
  if self.is_inside(self) then return alone(self) end
  local writer = self.writer
  local offset, p, why = appended(method, pcall(writer.append, writer, key, value, options))
  if not offset then return nil, p, why end
  local done, message, code = read_up_to(self, p, offset)
  if done then return offset, p end
  return nil, ("offset %.0f was appended, but the table could not read on to it: %s"):format(offset, message), code
end

--- Appends a record to the topic and reads on until it is applied, so that `get` has it, and before it what others have written. What the
--- callbacks raise comes out of it; the record is in the log then.
---@param key string|number
---@param value string|number the record's; the table has what `decode` makes of it
---@param options? sediment.append_options
---@return integer? offset
---@return integer|string partition or the message
---@return sediment.code? code as append's and update's; `busy` from inside a callback, and nothing was appended, or behind a transaction
---that is open (`import` of a copy that has one, without abort_open): the record is in the log, and the message says so
function Table:put(key, value, options)
  check_open(self, "put")
  key = to_key(key, "put")
  if value == nil then error("bad argument #2 to 'put' (value: string or finite number expected, got nil; delete takes a key out)", 2) end
  return write(self, "put", key, value, options)
end

--- The same with a tombstone, which takes the key out.
---@param key string|number
---@param options? sediment.append_options
---@return integer? offset
---@return integer|string partition or the message
---@return sediment.code? code as put's
function Table:delete(key, options)
  check_open(self, "delete")
  key = to_key(key, "delete")
  return write(self, "delete", key, nil, options)
end

--- Writes the snapshot, durably, with all that it tells of. Blocks the thread.
---@return integer? bytes
---@return string? message
---@return sediment.code? code `unsupported` (a value that cannot be saved; the key is in the message), `busy` (from inside a callback;
---another table is just writing it; the last update failed), `readonly`, `disk_full`, `io`, `unknown_topic`
function Table:snapshot()
  check_open(self, "snapshot")
  if not self.snapshot_name then error("snapshot: the table was opened without the option snapshot", 2) end
  return alone(self, table_snapshot.save)
end

---@class sediment.table_stats
---@field keys integer that have a value
---@field changes integer records applied and keys dropped since it opened
---@field origin "snapshot"|"log" what it began with
---@field note? string why it did not begin with its snapshot
---@field note_code? sediment.code `resync`, `corrupt`, `unsupported`, `io`
---@field snapshot_failure? string why the last snapshot was not written

---@return sediment.table_stats
function Table:stats()
  check_open(self, "stats")
  return {
    keys = self.live, changes = self.changes, origin = self.origin, note = self.note or nil, note_code = self.note_code or nil,
    snapshot_failure = self.failure or nil,
  }
end

-- Writes the snapshot if there is to be one, and it would have anything new.
local function save_at_close(self)
  if self.closed or not (self.snapshot_name and self.unsaved) then return true end
  if self.life.closed then return nil, "no snapshot was written: the store was closed before the table", "closed" end
  return alone(self, table_snapshot.save)
end

--- Writes the snapshot, if there is to be one, and lets go of the values. May be called again. After its store is closed, nothing can be
--- written any more.
---@return true
---@return string? message why no snapshot was written
---@return sediment.code? code as snapshot's
function Table:close()
  check_self(self, "close", 2)
  local ok, saved, message, code = pcall(save_at_close, self)
  self.closed = true
  if self.saved then self.saved:close() end
  self.values, self.homes, self.indexes, self.saved, self.live = {}, false, false, false, 0
  if not ok then error(saved, 0) end
  return true, message, code
end

Table.__close = Table.close

--- A state is what its topic says: it changes by put, delete and topic:append alone.
function Table:__newindex(key)
  error("the table " .. self.name .. " has no field '" .. tostring(key) .. "' to set; topic:append gives a key its value", 2)
end

function Table:__tostring()
  return "sediment.table (" .. (self.closed and "closed" or self.name) .. ")"
end

-- ------------------------------------------------------------------------------------------------------------------------------ opening

local function is_being_updated(self) return updating[self] ~= nil end
local function read_on(self, p) return alone(self, update, p) end

local function new(log, store, topic, name, options, pace)
  return setmetatable({
    log = log,                            -- the functions that the topic's log is read by
    life = log.life(store), topic = topic, name = name, decode = options.decode, on_change = options.on_change,
    values = {}, live = 0,                -- key -> value; how many there are
    homes = false,                        -- key -> its partition, in topics of several
    indexes = options.index and table_index.new(options.index) or false,
    positions = {}, checked = {},         -- partition -> next offset to read; up to where no deletion was missed
    starts = {}, seen = {},               -- partition -> log start that the values go by, nil: start over; keys not to be swept
    ends = {},                            -- partition -> how far the log was at the last update
    closed = false,
    changes = 0,                          -- records applied so far
    pace = pace,
    writer = topic,                       -- what put and delete append to; whether they are refused; how they read on
    is_inside = is_being_updated, read_on = read_on,
    origin = "log", note = false, note_code = false,
    snapshot_name = options.snapshot_name or false, schema = options.schema, snapshot_every = options.snapshot_every,
    saved = false, stale = false,         -- the snapshot that it began with, if that has values left; one that it could not begin with
    unsaved = true, saved_at = 0,         -- whether the snapshot lacks anything; `changes` when one was written, or tried to
    saving = false, failure = false,      -- one is just being written; why the last could not be
  }, Table)
end

-- The first reading. What the snapshot has is told first.
local function begin(self)
  local n, message, code = self.topic:partitions()
  if not n then return nil, message, code end
  expect_partitions(self, n)
  if self.snapshot_name then table_snapshot.restore(self, n) end
  local done
  done, message, code = update(self)
  if done then table_snapshot.tell_vanished(self) end
  return done, message, code
end

-- Opens one, once arguments are checked; of a store whose log is read by other functions than `core`'s.
local function open_over(log, pace, store, name, options)
  local topic, message, code = store:topic(name)
  if code == "unknown_topic" then message = "there is no topic '" .. name .. "'; make it with store:topic(name, {})" end
  if not topic then return nil, message, code end
  local self = new(log, store, topic, name, options, pace)
  local changes, why, its_code = begin(self)
  if not changes then return nil, why, its_code end
  return self
end

local function check_name(name)
  if type(name) ~= "string" then error("bad argument #1 to 'table' (name: string expected, got " .. type(name) .. ")", 3) end
end

-- store:table with `pace`, which is told of each record in front of it, with the size of its value, and may yield: for resty.sediment.
local function open_paced(pace, store, name, options)
  check.store(store, "table")
  check_name(name)
  options = table_options.take(options)
  return open_over(core, pace, store, name, options)
end

-- store:table(topic_name [, options]); described in sediment/types.lua.
local function open(store, name, options) return open_paced(false, store, name, options) end

return { open = open, open_paced = open_paced, open_over = open_over, awaited = awaited }

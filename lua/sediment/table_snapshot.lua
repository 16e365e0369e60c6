-- Snapshots of a state table: what it was, and where it stood in the log, in a file that a restart goes on from.
--
-- A snapshot that was checked stays in its file (`saved` of the table). A key has its value there or in `values`, never in both: it moves
-- when it is first asked for or changed, and what moves is in `values` before the snapshot drops it. `live` counts both.
--
-- A snapshot may be gone on from when the table could have gone on itself, had it stayed open: the invariants of sediment/table.lua are
-- asked of it, with the positions that it was written with. It comes to its place after all that it tells of is durable, so a loss of power
-- leaves none that is ahead of the log.
local core = require "sediment.core"
local table_index = require "sediment.table_index"

local table_snapshot = {}

-- ------------------------------------------------------------------------------------------------------------------------------ reading

local function let_go(self)
  self.saved:close()
  self.saved = false
end

local function take(self, key, value, p)
  if self.homes then self.homes[key] = p end
  self.values[key] = value
end

--- The value that the snapshot has for a key, which the table takes over; nil: none.
function table_snapshot.recall(self, key)
  local saved = self.saved
  local value, p, slot = saved:get(key)
  if value == nil then return nil end
  take(self, key, value, p)
  if saved:drop(slot) == 0 and self.saved then let_go(self) end
  return value
end

--- Takes over all that is left of it. Where it gives way to others, they may take over the rest.
function table_snapshot.recall_all(self)
  local saved, pace = self.saved, self.pace
  if not (self.homes or pace) then saved:load(self.values) end
  for key, value, p, slot in saved.next, saved do
    take(self, key, value, p)
    saved:drop(slot)
    if pace then pace(0) end
    if self.saved ~= saved then return end
  end
  let_go(self)
end

-- The same as the table opens, when callbacks are to hear of each key.
local function tell_all(self)
  local saved, indexes, on_change = self.saved, self.indexes, self.on_change
  for key, value, p, slot in saved.next, saved do
    if indexes then
      table_index.look(indexes, key, value)
      table_index.move(indexes, key)
    end
    take(self, key, value, p)
    saved:drop(slot)
    if on_change then on_change(key, value, nil) end
  end
  let_go(self)
end

-- Why the table could not have gone on from a place in a partition; nil: it could. The last result is a code.
local function obstacle_in(topic, p, position, checked, start)
  local log_start, log_end, floor = core.bounds(topic, p)
  if not log_start then return log_end, floor end
  if position > log_end then return "is ahead of the log, which was put back to an older state", "corrupt" end
  if start ~= log_start then
    return ("is older than the log start, which has moved from %.0f to %.0f"):format(start, log_start), "resync"
  end
  if floor < checked then return nil end
  return ("ends at %.0f, below the purge floor: a deletion up to %.0f was cleaned away unseen"):format(checked, floor), "resync"
end

-- The same of the whole snapshot.
local function obstacle(self, saved, partitions)
  local schema, count = saved:head()
  if schema ~= self.schema then
    return "has another schema: " .. schema:sub(1, 80) .. ", and not " .. self.schema:sub(1, 80), "unsupported"
  end
  if count > partitions then return "has more partitions than the topic", "corrupt" end
  for p = 0, count - 1 do
    local position, checked, start = saved:place(p)
    if position then
      local why, code = obstacle_in(self.topic, p, position, checked, start)
      if why then return why, code end
    end
  end
end

local function go_on_from(self, saved)
  local _, partitions, count = saved:head()
  self.saved, self.live, self.origin, self.unsaved = saved, count, "snapshot", false
  for p = 0, partitions - 1 do self.positions[p], self.checked[p], self.starts[p] = saved:place(p) end
  if self.on_change or self.indexes then tell_all(self)
  elseif count == 0 then let_go(self) end
end

--- Begins a table with its snapshot, if there is one that it can go on from; else `note` and `note_code` tell why not. One that the log has
--- overtaken, or of another schema, is kept for tell_vanished.
function table_snapshot.restore(self, partitions)
  local saved, message, code = core.snapshot_open(self.topic, self.snapshot_name)
  if not saved then
    if code ~= "not_found" then self.note, self.note_code = message, code end
    return
  end
  local why
  why, code = obstacle(self, saved, partitions)
  if not why then return go_on_from(self, saved) end
  self.note, self.note_code = "the snapshot " .. why, code
  if self.on_change and (code == "resync" or code == "unsupported") then self.stale = saved else saved:close() end
end

--- Tells of the keys that were in the snapshot and are not in the log any more: nobody else will.
function table_snapshot.tell_vanished(self)
  local stale = self.stale
  if not stale then return end
  for key, value in stale.next, stale do
    if self.values[key] == nil then self.on_change(key, nil, value) end
  end
  stale:close()
  self.stale = false
end

-- ------------------------------------------------------------------------------------------------------------------------------ writing

-- Position, checked and log start of each partition in turn; -1: it was not read. A table that is half-way through starting over has none.
local function places_of(self, partitions)
  local places = {}
  for p = 0, partitions - 1 do
    local position = self.positions[p]
    if position and (self.seen[p] or not self.starts[p]) then
      return nil, "the last update has not come to its end in partition " .. p .. "; update the table first", "busy"
    end
    places[3 * p + 1], places[3 * p + 2], places[3 * p + 3] = position or -1, self.checked[p] or -1, self.starts[p] or -1
  end
  return places
end

local function write_all(self, writer)
  local homes = self.homes
  for key, value in pairs(self.values) do
    local done, message, code = writer:add(key, value, homes and homes[key] or 0)
    if not done then return nil, message, code end
  end
  if self.saved then
    local done, message, code = writer:add_rest(self.saved)
    if not done then return nil, message, code end
  end
  return writer:commit()
end

local function write(self)
  local partitions, message, code = self.topic:partitions()
  if not partitions then return nil, message, code end
  local places, writer, bytes
  places, message, code = places_of(self, partitions)
  if not places then return nil, message, code end
  writer, message, code = core.snapshot_begin(self.topic, self.snapshot_name, self.schema, self.live, places)
  if not writer then return nil, message, code end
  local ok
  self.saving = true
  ok, bytes, message, code = pcall(write_all, self, writer)
  self.saving = false
  writer:close()
  if not ok then error(bytes, 0) end
  return bytes, message, code
end

--- Writes the snapshot. The caller sees to it that nobody updates the table meanwhile.
---@return integer? bytes
---@return string? message
---@return string? code
function table_snapshot.save(self)
  local bytes, message, code = write(self)
  self.saved_at = self.changes                         -- a failure is not tried again at the next record
  self.failure = message or false
  if bytes then self.unsaved = false end
  return bytes, message, code
end

--- Whether one is to be written without being asked for: what it costs goes with the number of keys, so as many records are to come
--- first. Not before on_change has heard of what the last one had and the log has not.
function table_snapshot.is_due(self)
  return self.snapshot_name and self.unsaved and not self.stale and self.changes - self.saved_at >= math.max(self.snapshot_every, self.live)
end

return table_snapshot

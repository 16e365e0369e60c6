-- What a consumer has of one partition: where it stands, and a reader that stays open between polls.
--
-- A position that was taken over, from a commit or from what was read before, stands for everything that the program has made of the
-- records below it. A tombstone that compaction has removed from behind it, unread, would leave a deleted key in there for good. So a
-- share knows up to which purge floor it is right (`floor`), and the floor is asked after each reading, as in a state table; what may
-- have been missed is told (`resync`) before anything else is delivered. A share that begins at the log start has nothing to miss: what
-- was removed before, it has never seen.
--
-- `self` is the consumer, of which these use store, handles, commits, reset, uncommitted, on_corrupt, and `taken`: where the shares stood
-- that a call has read. They answer nil, message, code when they fail.
local core = require "sediment.core"
local consumer_options = require "sediment.consumer_options"

local Share = {}

--- Of a partition that the consumer has by this number (sediment/group.lua).
function Share.new(topic, p, number) return { topic = topic, partition = p, number = number, paused = false } end

--- The handle of a topic; opened anew when the topic has been deleted, for it may have been made anew.
function Share.topic_of(self, name)
  local handle = self.handles[name]
  if handle and handle:partitions() then return handle end
  local message, code
  handle, message, code = core.store.topic(self.store, name)
  self.handles[name] = handle
  return handle, message, code
end

--- How many partitions a topic has, 0 when it is missing.
function Share.count_of(self, name)
  local topic, message, code = Share.topic_of(self, name)
  if topic then return topic:partitions() or 0 end
  if code == "unknown_topic" then return 0 end
  return nil, message, code
end

function Share.drop_reader(share)
  if share.reader then share.reader:close() end
  share.reader = nil
end

-- ------------------------------------------------------------------------------------------------------------------------- where to begin

--- Puts it somewhere, with nothing missed up to that floor.
function Share.stand(share, position, floor)
  Share.drop_reader(share)
  share.position, share.floor, share.wants_resync = position, floor, nil
  return true
end

local function out_of_range(share, position, start, log_end)
  return nil, consumer_options.outside(share, position, start, log_end), "offset_out_of_range"
end

-- By auto_offset_reset, when there is no position or the log does not have it. Where a group has committed in other partitions of the
-- topic, one without a commit was added later: then all that is in it has come since the group began.
local function reset(self, share, position, start, log_end, floor)
  if self.reset == "none" then return out_of_range(share, position, start, log_end) end
  local at, is_new, message, code = start, nil, nil, nil
  if self.reset == "latest" then
    if not position and self.commits then is_new, message, code = self.commits:has(share.topic, share.topic_id) end
    if message then return nil, message, code end
    if not is_new then at = log_end end
  end
  return Share.stand(share, at, floor)
end

local function is_compacted(topic)
  local config = topic:config()
  return config and config["cleanup.policy"]:find("compact", 1, true) ~= nil
end

local RESYNC = "%s-%d: %s; forget what was made of this partition, and seek to \"earliest\"; or seek to where it should go on"

-- What a state that was made of the records below the position may have missed, or have too much; nil: nothing.
local function missed_at(position, start, log_end, floor)
  local cut = "the log ends at offset %.0f, before the offset %.0f that was read"
  if position > log_end then return cut:format(log_end, position) end
  local deleted = "records from offset %.0f on were deleted before they were read; the log begins at %.0f"
  if position < start then return deleted:format(position, start) end
  local purged = "deletions up to offset %.0f were compacted away before they were read from offset %.0f on"
  return floor >= position and purged:format(floor, position) or nil
end

local function want_resync(share, why)
  share.wants_resync = why
  return nil, RESYNC:format(share.topic, share.partition, why), "resync"
end

-- From a position that stands for what was read before.
local function resume(self, share, topic, position, start, log_end, floor)
  local missed = missed_at(position, start, log_end, floor)
  share.position = position
  if missed and is_compacted(topic) then return want_resync(share, missed) end
  if position < start or position > log_end then return reset(self, share, position, start, log_end, floor) end
  return Share.stand(share, position, floor)
end

--- Finds out where it stands: its topic's handle.
function Share.locate(self, share)
  local topic, message, code = Share.topic_of(self, share.topic)
  if not topic then return nil, message, code end
  local id, had = core.topic_id(topic), share.position
  if share.topic_id ~= id then
    Share.stand(share, nil, nil)
    share.topic_id, share.committed = id, nil
    local made_anew = "topic '%s' was deleted and made anew; the next call begins with the new one"
    if had then return nil, made_anew:format(share.topic), "unknown_topic" end
  end
  if share.wants_resync then return want_resync(share, share.wants_resync) end
  if share.position then return topic end
  local start, log_end, floor = core.bounds(topic, share.partition)
  if not start then return nil, log_end, floor end
  local commit
  if self.commits then commit, message, code = self.commits:get(share.topic, share.partition, id) end
  if message then return nil, message, code end
  local done
  if commit then done, message, code = resume(self, share, topic, commit.offset, start, log_end, floor)
  else done, message, code = reset(self, share, nil, start, log_end, floor) end
  return done and topic, message, code
end

-- ------------------------------------------------------------------------------------------------------------------------------ reading

local MOST_READERS = 64                    -- each may hold a file open

-- The share's reader, at its position. nil, message, code.
local function open_reader(self, share, topic)
  if share.reader then return share.reader end
  local message, code
  share.reader, message, code = core.reader(topic, share.partition, share.position, false, self.uncommitted)
  if not share.reader then return nil, message, code end
  local opened = self.opened
  for i = #opened, 1, -1 do
    if opened[i] == share then table.remove(opened, i) end
  end
  opened[#opened + 1] = share
  if #opened > MOST_READERS then Share.drop_reader(table.remove(opened, 1)) end
  return share.reader
end

-- Behind damage, where that was asked for.
local function step_over(self, share, message, code)
  if code ~= "corrupt" or not self.on_corrupt then return nil, message, code end
  local from, to, why = share.reader:skip()
  if not from then return nil, to, why end
  if type(self.on_corrupt) == "function" then self.on_corrupt(share.topic, share.partition, from, to, message) end
  return true
end

-- The next record behind the position: offset, key, value, timestamp, headers; nil at the end of the log; nil, message, code.
local function next_record(self, share)
  while true do
    local offset, key, value, timestamp, headers = share.reader:next()
    if offset then return offset, key, value, timestamp, headers end
    local more, message, code
    if key then more, message, code = step_over(self, share, key, value) else more, message, code = share.reader:more() end
    if not more then return nil, message, code end
  end
end

-- Whether tombstones between `from` and the end of what was read since may have gone unread; asked after the reading.
local function has_missed(share, topic, from)
  local start, log_end, floor = core.bounds(topic, share.partition)
  if not start then return nil, log_end, floor end
  if floor <= share.floor then return false end
  if floor >= from and is_compacted(topic) then return want_resync(share, missed_at(from, start, log_end, floor)) end
  share.floor = floor
  return false
end

-- Takes records while there is room, and moves the position: how many bytes. Also what ended it, if that was a failure.
local function take(self, share, list, room, bytes_left)
  local name, p, bytes = share.topic, share.partition, 0
  while room > 0 and bytes < bytes_left do
    local offset, key, value, timestamp, headers = next_record(self, share)
    if not offset then
      if not key then share.position = share.reader:position() end
      return bytes, key, value
    end
    list[#list + 1] = { topic = name, partition = p, offset = offset, key = key, value = value, timestamp = timestamp, headers = headers }
    room, bytes = room - 1, bytes + (key and #key or 0) + (value and #value or 0)
    share.position = offset + 1
  end
  return bytes
end

local function read_some(self, share, list, room, bytes_left)
  local topic, message, code = Share.locate(self, share)
  local reader, bytes
  if topic then reader, message, code = open_reader(self, share, topic) end
  if not reader then return nil, message, code end
  local from, first = share.position, #list
  self.taken[share] = self.taken[share] or from
  share.seen = topic:latest(share.partition)
  bytes, message, code = take(self, share, list, room, bytes_left)
  local missed, why, what = has_missed(share, topic, from)
  if missed == nil then
    for i = #list, first + 1, -1 do list[i] = nil end
    Share.drop_reader(share)
    share.position = from
    return nil, why, what
  end
  if message and #list == first then
    Share.drop_reader(share)
    return nil, message, code
  end
  return bytes
end

--- Adds records to the list, as far as there is room: how many bytes they take. nil, message, code, when the first failed. One that
--- retention has overtaken begins as one without a position.
function Share.read(self, share, list, room, bytes_left)
  local bytes, message, code = read_some(self, share, list, room, bytes_left)
  if code ~= "offset_out_of_range" or not share.position then return bytes, message, code end
  local topic = Share.topic_of(self, share.topic)
  local start, log_end, floor = core.bounds(topic, share.partition)
  if not start then return nil, log_end, floor end
  local done
  done, message, code = resume(self, share, topic, share.position, start, log_end, floor)
  if not done then return nil, message, code end
  return read_some(self, share, list, room, bytes_left)
end

return Share

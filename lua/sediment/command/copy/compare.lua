-- Whether a copied partition says what its source says, and which of its offsets is which of the source's.
local core = require "sediment.core"
local Partition = require "sediment.command.copy.partition"

local compare = {}

local MANY = 1000                         -- records at once, for the digest

-- Calls f(offset, record) for those of an end, until it answers anything but nil, which is the answer.
local function each(source, p, from, to, f)
  for offset, key, value, timestamp, headers in source:records(p, from, to) do
    local answer = f(offset, { key = key, value = value, timestamp = timestamp, headers = headers })
    if answer ~= nil then return answer end
  end
end

local function differs(times, a, b) return core.digest("", { a }, times) ~= core.digest("", { b }, times) end

-- Where the copy begins that the target still has.
local function target_start(self)
  local start, message, code = self.target:earliest(self.p)
  if not start then return nil, message, code end
  return math.max(start, self.state.base)
end

-- ------------------------------------------------------------------------------------------------------------------------ by the digest

-- How many records of the copy the target has, and their digest.
local function target_digest(self, start, tick)
  local list, count, digest = {}, 0, ("0"):rep(16)
  local function add()
    digest, count, list = core.digest(digest, list, self.times), count + #list, {}
  end
  each(self.target, self.p, start, self.state.at, function(_, record)
    list[#list + 1] = record
    tick(record)
    if #list == MANY then add() end
  end)
  add()
  return count, digest
end

-- ----------------------------------------------------------------------------------------------------------------- record by record

-- The records of the source that were copied, one a call, with their numbers from 0.
local function numbered(self)
  local next_record, n = self.source:records(self.p, self.state.first, self.state.from), -1
  return function()
    local offset, key, value, timestamp, headers = next_record()
    if not offset then return nil end
    n = n + 1
    return n, { key = key, value = value, timestamp = timestamp, headers = headers }, offset
  end
end

-- What the target's records are held against: its n-th offset is the n-th record of the source, for nobody else writes to it. Where there
-- are gaps in the target's offsets, since the power was lost, its n-th record is. Answers the first difference, as text; how many records
-- the target has; and the first offset that it lacks, if that is known.
local function difference(self, start)
  local s = self.state
  local take, seen, missing = numbered(self), 0, nil
  local n, record, offset = take()
  local expected = s.at - s.base == s.count and start or nil
  local found = each(self.target, self.p, start, s.at, function(at, copied)
    local number = expected and at - s.base or seen
    if expected and at > expected then missing = missing or expected end
    expected, seen = expected and at + 1, seen + 1
    while n and n < number do n, record, offset = take() end
    if not n or differs(self.times, record, copied) then
      return ("the target's offset %.0f is not what the source has at %s"):format(at, n and ("%.0f"):format(offset) or "its end")
    end
  end)
  return found, seen, missing or expected
end

-- How many records the source has of those that were copied.
local function count_source(self)
  local n = 0
  each(self.source, self.p, math.max(self.source_start, self.state.first), self.state.from, function() n = n + 1 end)
  return n
end

local function may_be_cleaned(self, start)
  local config, message, code = self.target.topic:config()
  if not config then return nil, message, code end
  return start > self.state.base or config["cleanup.policy"]:find "compact" ~= nil
end

-- The digests differ: where, and whether the target's own cleaning is the reason.
local function look_closer(self, start, count)
  local s = self.state
  if self.source_start > s.first or count_source(self) ~= s.count then
    local message = "partition %d cannot be compared: the source has not all records any more that were copied, nor has the target"
    return nil, message:format(self.p), "corrupt"
  end
  local found, left, missing = difference(self, start)
  if found then return nil, ("partition %d: %s"):format(self.p, found), "corrupt" end
  local cleaned, message, code = may_be_cleaned(self, start)
  if cleaned == nil then return nil, message, code end
  if left < s.count and cleaned then return { count = count, cleaned = s.count - left } end
  return nil, ("partition %d: %.0f records were copied, and the target has %.0f; the first that is missing has its offset %.0f"):format(
    self.p, s.count, left, missing or s.base + left), "corrupt"
end

local function verify(self, tick)
  local s = self.state
  local log_end, message, code = self.target:latest(self.p, s.at)
  local start
  if log_end then start, message, code = target_start(self) end
  if start then self.source_start, message, code = self.source:earliest(self.p) end
  if not self.source_start or not start then return nil, message, code end
  if log_end ~= s.at then
    local what = "partition %d: the target ends at offset %.0f, the copy at %.0f: somebody else writes to it"
    return nil, what:format(self.p, log_end, s.at), "corrupt"
  end
  local count, digest = target_digest(self, start, tick)
  if count == s.count and digest == s.digest then return { count = count, cleaned = 0 } end
  return look_closer(self, start, count)
end

--- Reads a partition that was copied again, from the target: { count = how many records, cleaned = how many the target has let go of }.
--- nil, message, `corrupt`: it is not what the source has, and where. `tick` hears of each record.
function compare.verify(partition, tick) return Partition.guarded(verify, partition, tick) end

-- ---------------------------------------------------------------------------------------------------------------------------- offsets

local function cannot_tell(self, offset)
  local message = "partition %d: which offset of the target is the source's %.0f cannot be told any more: both have been cleaned since"
  return nil, message:format(self.p, offset), "corrupt"
end

-- How many of the source's records from an offset on were copied; and the one that is so many behind the first.
local function count_from(self, offset, which)
  local n, chosen = 0, nil
  each(self.source, self.p, offset, self.state.from, function(_, record)
    if n == which then chosen = record end
    n = n + 1
  end)
  return n, chosen
end

-- The first record of the target at or above an offset, and its offset; nil: none.
local function target_record(self, from)
  local offset, record
  each(self.target, self.p, from, self.state.at, function(at, copied)
    offset, record = at, copied
    return true
  end)
  return offset, record
end

-- The offset of the target's record that has `behind` others, of those that were copied, behind it or is one of them.
local function from_the_end(self, behind)
  local s = self.state
  if s.at - s.base == s.count then return s.at - behind end
  local total, wanted = 0, nil            -- there are gaps: the power was lost once
  local start = assert(target_start(self))
  each(self.target, self.p, start, s.at, function(at)
    if total == s.count - behind then wanted = at end
    total = total + 1
  end)
  return total == s.count and (wanted or s.at) or nil
end

local function translate(self, offset)
  local s = self.state
  if offset >= s.from then return s.at end
  local start, message, code = self.source:earliest(self.p)
  if not start then return nil, message, code end
  offset = math.max(offset, start, s.first)
  local behind = count_from(self, offset)
  local at = from_the_end(self, behind)
  if not at then return cannot_tell(self, offset) end
  local found, copied = target_record(self, math.max(at, assert(target_start(self))))
  if not found then return at end
  local _, record = count_from(self, offset, found - at)
  -- With gaps the number of the record behind is not the difference of offsets.
  if found ~= at and s.at - s.base ~= s.count then return cannot_tell(self, offset) end
  if not record or differs(self.times, record, copied) then return cannot_tell(self, offset) end
  return at
end

--- Where in the target the first record is that was copied from this offset of the source or behind it; the end, if none was. It is counted
--- from the end of the copy, and held against what is there. nil, message, code.
function compare.translate(partition, offset) return Partition.guarded(translate, partition, offset) end

return compare

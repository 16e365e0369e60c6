-- Copying one partition. What it has come to is `state` (journal.lua); all methods answer nil, message, code when they fail.
local core = require "sediment.core"
local Journal = require "sediment.command.copy.journal"

local Partition = {}
Partition.__index = Partition

local CHUNK_RECORDS, CHUNK_BYTES = 5000, 4 * 1024 * 1024       -- noted in the journal at once, and so made durable at once
local BATCH_RECORDS, BATCH_BYTES = 500, 512 * 1024             -- appended at once here; half of what a topic takes by default
local RECORD_BYTES = 100                                       -- what a record takes besides key and value, about

--- Of partition `p` of both; `times`: whether the target keeps the timestamps that it is given.
function Partition.new(source, target, journal, p, times)
  -- librdkafka makes batches of its own.
  return setmetatable({ source = source, target = target, journal = journal, p = p, times = times,
                        batch_records = target.is_cluster and CHUNK_RECORDS or BATCH_RECORDS,
                        batch_bytes = target.is_cluster and CHUNK_BYTES or BATCH_BYTES }, Partition)
end

local function named(self) return ("%s-%d"):format(self.source.name, self.p) end

-- ------------------------------------------------------------------------------------------------------------------------- beginning

local function begin_anew(self)
  local start, message, code = self.target:earliest(self.p)
  local log_end, first
  if start then log_end, message, code = self.target:latest(self.p) end
  if log_end then first, message, code = self.source:earliest(self.p) end
  if not first then return nil, message, code end
  if start ~= log_end then
    return nil, ("partition %d of '%s' in the target has records that are no copy's: it must be empty, or another topic"):format(
      self.p, self.target.name), "exists"
  end
  self.state = { topic = self.source.name, first = first, base = log_end, from = first, at = log_end, count = 0, digest = ("0"):rep(16),
                 times = self.times, runs = {} }
  return true
end

local function length(runs)
  local n = 0
  for _, run in ipairs(runs) do n = n + run[2] end
  return n
end

local function foreign(self, log_end)
  if log_end < self.state.at then
    return nil, ("partition %d of '%s' in the target ends at offset %.0f, the copy at %.0f: it has lost records"):format(
      self.p, self.target.name, log_end, self.state.at), "exists"
  end
  return nil, ("partition %d of '%s' in the target has records up to offset %.0f that are no copy's: somebody else writes to it"):format(
    self.p, self.target.name, log_end), "exists"
end

-- The last record of the target at or above an offset; nil alone: none.
local function last_record(self, from, log_end)
  local last
  for offset in self.target:records(self.p, from, log_end) do last = offset end
  return last
end

-- How many of the records that were to be copied next have arrived. On a cluster the offsets tell. Here the log goes on at a higher offset
-- when the power was lost, so the last record tells; unless retention has let go of all of them.
local function arrived(self, log_end)
  local s = self.state
  local most = length(s.runs)
  local start, message, code = self.target:earliest(self.p)
  if not start then return nil, message, code end
  if self.target.is_cluster or log_end == s.at or (start == log_end and log_end <= s.at + most) then return log_end - s.at end
  local last = last_record(self, math.max(s.at, start), log_end)
  return last and last + 1 - s.at or 0
end

-- The first `n` offsets of runs, as runs; and what is behind them.
local function head(runs, n)
  local list, next_offset = {}, nil
  for _, run in ipairs(runs) do
    if n == 0 then break end
    local take = math.min(n, run[2])
    list[#list + 1] = { run[1], take }
    n, next_offset = n - take, run[1] + take
  end
  return list, next_offset
end

-- The digest with the records of these runs, read once more: those of a chunk that was cut short. "unknown": compaction has taken some of
-- them from the source meanwhile, so that only comparing can tell (compare.lua).
local function digest_of(self, runs)
  local list, at, want = {}, 1, 0
  local last = runs[#runs]
  for offset, key, value, timestamp, headers in self.source:records(self.p, runs[1][1], last[1] + last[2]) do
    local run = runs[at]
    if offset ~= run[1] + want then return "unknown" end
    want = want + 1
    if want == run[2] then at, want = at + 1, 0 end
    list[#list + 1] = { key = key, value = value, timestamp = timestamp, headers = headers }
  end
  return at > #runs and core.digest(self.state.digest, list, self.times) or "unknown"
end

-- Goes on behind the first n of the runs.
local function advance(self, n)
  local s = self.state
  if n > 0 then
    local runs, next_offset = head(s.runs, n)
    if s.digest ~= "unknown" then s.digest = n == length(s.runs) and s.after or digest_of(self, runs) end
    s.count, s.from, s.at = s.count + n, next_offset, s.at + n
  end
  s.runs, s.after = {}, nil
end

local function check_source(self)
  local from = self.state.from
  local start, message, code = self.source:earliest(self.p)
  local log_end
  if start then log_end, message, code = self.source:latest(self.p, from) end
  if not log_end then return nil, message, code end
  if start > from then
    return nil, ("%s: it is copied up to offset %.0f, and the source has only those from %.0f on now: what was between is lost"):format(
      named(self), from, start), "offset_out_of_range"
  end
  if log_end < from then
    return nil, ("%s: it is copied up to offset %.0f, and the source ends at %.0f: it is not what was copied"):format(
      named(self), from, log_end), "offset_out_of_range"
  end
  return true
end

-- Where the target ends, and how many have arrived of those that were to be copied next.
local function count_arrived(self)
  local s = self.state
  local log_end, message, code = self.target:settled(self.p, s.at, s.at + length(s.runs))
  local n
  if log_end then n, message, code = arrived(self, log_end) end
  if not n then return nil, message, code end
  return log_end, n
end

local LOOKS, LOOK_MS = 12, 500            -- how often, and how long, a cluster is asked for what was noted last

-- What the journal has, and where the target ends; how many have arrived. A broker that has just come back may answer with what was noted
-- before the last time. Then there is more than that tells of, since what comes next is noted when all before has arrived, and the broker
-- is asked again; if all of it is there, and no more, both say the same. false: nothing was noted. nil, message, code.
local function look(self)
  local log_end, n, code
  for i = 1, self.target.is_cluster and LOOKS or 1 do
    if i > 1 then self.target.topic:wait(log_end, LOOK_MS, self.p) end
    self.state, n, code = self.journal:read(self.p)
    if not self.state and n then return nil, n, code end
    if self.state then log_end, n, code = count_arrived(self) else log_end, n, code = self.target:latest(self.p) end
    if not log_end then return nil, n, code end
    if self.state and n <= length(self.state.runs) or log_end == 0 then break end
  end
  return self.state and log_end or false, n
end

local function go_on(self, log_end, n)
  local s = self.state
  if s.topic ~= self.source.name then
    return nil, ("topic '%s' of the target holds a copy of '%s'"):format(self.target.name, s.topic), "exists"
  end
  if s.times ~= self.times then
    return nil, ("topic '%s' of the target: message.timestamp.type was changed since the copy began"):format(self.target.name), "policy"
  end
  if n > length(s.runs) or n < 0 then return foreign(self, log_end) end
  advance(self, n)
  s.at = log_end
  return check_source(self)
end

local function begin(self)
  local log_end, message, code = look(self)
  if log_end == nil then return nil, message, code end
  local done
  if log_end then done, message, code = go_on(self, log_end, message) else done, message, code = begin_anew(self) end
  if not done then return nil, message, code end
  self.log_end, message, code = self.source:latest(self.p, self.state.from)
  self.position = self.state.from
  return self.log_end and true, message, code
end

-- Iterators raise what is an answer here.
local function guarded(f, ...)
  local ok, a, message, code = pcall(f, ...)
  if ok then return a, message, code end
  if type(a) ~= "table" then error(a, 0) end
  return nil, a.message, a.code
end

Partition.guarded = guarded

--- Finds out where it goes on, and that it can. It ends where the source ends now.
function Partition:begin() return guarded(begin, self) end

--- How many offsets are ahead.
function Partition:lag() return math.max(0, self.log_end - self.position) end

-- --------------------------------------------------------------------------------------------------------------------------- reading

local function note_offset(chunk, offset)
  local run = chunk.runs[#chunk.runs]
  if run and offset == run[1] + run[2] then run[2] = run[2] + 1
  else
    -- The one before has its length now, and so its text.
    chunk.text = chunk.text + #Journal.run_text({ chunk.last, run and run[2] or 0 }, chunk.before) + 1
    chunk.runs[#chunk.runs + 1] = { offset, 1 }
    chunk.before = chunk.last
  end
  chunk.last = offset
end

local LONGEST_RUN = 36                    -- of two numbers up to 2^53, with what is between

local function fill(self, chunk)
  self.next = self.next or self.source:records(self.p, self.position, self.log_end)
  while #chunk.records < CHUNK_RECORDS and chunk.bytes < CHUNK_BYTES and chunk.text < Journal.RUNS_MOST - 2 * LONGEST_RUN do
    local offset, key, value, timestamp, headers = self.next()
    if not offset then
      self.position = self.log_end
      return
    end
    note_offset(chunk, offset)
    local n = #chunk.records + 1
    chunk.records[n], chunk.offsets[n] = { key = key, value = value, timestamp = timestamp, headers = headers }, offset
    chunk.bytes = chunk.bytes + #(key or "") + #(value or "") + RECORD_BYTES
    self.position = offset + 1
  end
end

-- The next records. What stands before damage is copied, and the next call meets the damage again.
local function read_chunk(self)
  local from = self.state.from
  local chunk = { records = {}, offsets = {}, runs = {}, bytes = 0, text = 0, last = from, before = from }
  local ok, raised = pcall(fill, self, chunk)
  if ok then return chunk end
  self.next = nil
  if #chunk.records > 0 then return chunk end
  if type(raised) ~= "table" then error(raised, 0) end
  return nil, named(self) .. ": " .. raised.message, raised.code
end

-- Retention may pass a copy that is slower; then some of what was to be read is not there any more, and the gap says nothing of why.
local function check_gaps(self, chunk)
  local start, message, code = self.source:earliest(self.p)
  if not start then return nil, message, code end
  local first = chunk.runs[1]
  local end_of_it = first and first[1] == self.state.from and first[1] + first[2] or self.state.from
  if start <= end_of_it then return true end
  return nil, ("%s: the source has let go of records up to offset %.0f, and only those up to %.0f are copied"):format(
    named(self), start, end_of_it), "offset_out_of_range"
end

-- -------------------------------------------------------------------------------------------------------------------------- appending

local function unexpected(self, first)
  return nil, ("partition %d of '%s' in the target: a record went to offset %.0f where another was due: somebody else writes to it"):format(
    self.p, self.target.name, first), "exists"
end

-- Those that one record of a batch may be the reason for.
local PICKY = { too_large = true, invalid_record = true, invalid_timestamp = true, unsupported = true }

local function append_one(self, record, offset, at)
  local options = { partition = self.p, timestamp = record.timestamp, headers = record.headers }
  local first, message, code = self.target.topic:append(record.key, record.value, options)
  if not first then return nil, ("%s@%.0f cannot be copied: %s"):format(named(self), offset, message), code end
  if first ~= at then return unexpected(self, first) end
  return true
end

-- A batch that was refused, one record after the other: those before the one that is the reason are copied, and it is named.
local function append_each(self, chunk, from, to)
  local log_end, message, code = self.target:latest(self.p, self.state.at + from - 1)
  if not log_end then return nil, message, code end
  for i = log_end - self.state.at + 1, to do
    if i < from then return unexpected(self, log_end) end
    local done
    done, message, code = append_one(self, chunk.records[i], chunk.offsets[i], self.state.at + i - 1)
    if not done then return nil, message, code end
  end
  return true
end

local function append_batch(self, chunk, from, to)
  local batch = { (table.unpack or unpack)(chunk.records, from, to) }
  local first, last, code = self.target.topic:append_batch(batch, { partition = self.p })
  if not first and PICKY[code] then return append_each(self, chunk, from, to) end
  if not first then return nil, named(self) .. ": " .. last, code end
  local at = self.state.at + from - 1
  if first ~= at or last ~= at + #batch - 1 then return unexpected(self, first ~= at and first or last) end
  return true
end

local function append_all(self, chunk)
  local from, bytes = 1, 0
  for i, record in ipairs(chunk.records) do
    local size = #(record.key or "") + #(record.value or "") + RECORD_BYTES
    if i > from and (i - from >= self.batch_records or bytes + size > self.batch_bytes) then
      local done, message, code = append_batch(self, chunk, from, i - 1)
      if not done then return nil, message, code end
      from, bytes = i, 0
    end
    bytes = bytes + size
  end
  return append_batch(self, chunk, from, #chunk.records)
end

local function copy_chunk(self, chunk)
  local s = self.state
  s.runs = chunk.runs
  s.after = s.digest == "unknown" and s.digest or core.digest(s.digest, chunk.records, self.times)
  local done, message, code = self.journal:write(self.p, s)
  if done then done, message, code = append_all(self, chunk) end
  if done then done, message, code = self.target.topic:flush(self.p) end
  if not done then return nil, message, code end
  advance(self, #chunk.records)
  return chunk.records
end

--- Copies the next records: a list of them, empty at the end.
function Partition:step()
  local chunk, message, code = read_chunk(self)
  local done
  if chunk then done, message, code = check_gaps(self, chunk) end
  if not done then return nil, message, code end
  if #chunk.records > 0 then return copy_chunk(self, chunk) end
  done, message, code = self.journal:write(self.p, self.state)
  return done and {}, message, code
end

return Partition

-- How far a copy is, in the target itself: a commit of a group of its own for each partition, written before the records that it tells of.
--
-- A commit says at which offset of the target the next records go in, and which offsets of the source these are. So whenever a copy ends,
-- by kill -9 as well, the end of the target's log tells how many of them have arrived, and the next run goes on behind the last one:
-- nothing is left out, nothing is there twice, whatever is cleaned meanwhile on either side. And two copies to one topic meet in the group.
local Journal = {}
Journal.__index = Journal

local METADATA_MOST = 4096                -- offset.metadata.max.bytes, of Kafka and here
local HEAD_MOST = 500                     -- of it for all but the runs: the topic's name has 249 at most

Journal.RUNS_MOST = METADATA_MOST - HEAD_MOST

-- ---------------------------------------------------------------------------------------------------------------------------- the text

--- A run is so many consecutive offsets: { start, length }. As text "SKIP+LENGTH", from the end of the one before.
function Journal.run_text(run, at) return ("%.0f+%.0f"):format(run[1] - at, run[2]) end

local function runs_text(runs, at)
  local words = {}
  for i, run in ipairs(runs) do
    words[i] = Journal.run_text(run, at)
    at = run[1] + run[2]
  end
  return table.concat(words, ",")
end

local function parse_runs(text, at)
  local runs = {}
  for skip, length in text:gmatch "(%d+)%+(%d+)" do
    runs[#runs + 1] = { at + tonumber(skip), tonumber(length) }
    at = at + tonumber(skip) + tonumber(length)
  end
  return runs
end

local function encode(s)
  return ("copy 1 topic=%s first=%.0f base=%.0f from=%.0f count=%.0f times=%s digest=%s after=%s runs=%s"):format(
    s.topic, s.first, s.base, s.from, s.count, s.times and "yes" or "no", s.digest, s.after or s.digest, runs_text(s.runs, s.from))
end

local function decode(at, text)
  local fields = {}
  for name, value in text:gmatch "(%l+)=(%S*)" do fields[name] = value end
  local s = { topic = fields.topic, at = at, digest = fields.digest, after = fields.after, times = fields.times == "yes" }
  for _, name in ipairs { "first", "base", "from", "count" } do s[name] = tonumber(fields[name]) end
  if not text:find "^copy 1 " or not (s.topic and s.first and s.base and s.from and s.count and s.digest and s.after) then return nil end
  s.runs = parse_runs(fields.runs or "", s.from)
  return s
end

-- ------------------------------------------------------------------------------------------------------------------------------ the group

local function alone(store, group)
  local known, message, code = store:group(group)
  if not known then return nil, message, code end
  if known.members == 1 then return true end
  return nil, ("somebody else is copying to the topic now: group '%s' has %d members"):format(group, known.members), "busy"
end

-- On a cluster a member is given records ahead of its polls; this one never polls.
local function pause_all(consumer)
  local held, message, code = consumer:assignment()
  if not held then return nil, message, code end
  for topic, partitions in pairs(held) do
    for _, p in ipairs(partitions) do
      local done
      done, message, code = consumer:pause(topic, p)
      if not done then return nil, message, code end
    end
  end
  return true
end

--- Of a topic of a store, `target`. nil, message, `busy`: another copy has it.
function Journal.open(target)
  local self = setmetatable({ topic = target.name, group = "sediment-copy." .. target.name }, Journal)
  local message, code
  self.consumer, message, code = target.store:consumer { group = self.group, topics = { target.name } }
  if not self.consumer then return nil, message, code end
  local done
  done, message, code = alone(target.store, self.group)
  if done then done, message, code = pause_all(self.consumer) end
  if done then return self end
  self.consumer:close()
  return nil, message, code
end

--- What it has of a partition: { topic = the source's name, first = where the source began, base = where the target did, count = how many
--- records are copied, digest = of those, from = the source's offset and at = the target's where it goes on, runs = what is to be copied
--- next, after = the digest with those, times = whether the digest tells of timestamps }; nil alone: nothing. nil, message, code.
function Journal:read(p)
  local at, metadata, code = self.consumer:committed(self.topic, p)
  if not at then return nil, metadata, code end
  local state = decode(at, metadata or "")
  if state then return state end
  return nil, ("group '%s': what it has committed for partition %d is not a copy's"):format(self.group, p), "invalid_record"
end

--- Durable when it returns, as is all that the target had before.
function Journal:write(p, state)
  -- A member of a cluster's group takes part in it from inside its calls.
  local held, message, code = self.consumer:assignment()
  if not held then return nil, message, code end
  local what = { [self.topic] = { [p] = { offset = state.at, metadata = encode(state) } } }
  local done
  done, message, code = self.consumer:commit(what, { sync = true })
  if code == "fenced" then message = "somebody else has begun to copy to the topic: " .. message end
  return done, message, code
end

function Journal:close() return self.consumer:close() end

return Journal

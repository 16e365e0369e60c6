-- A naive model of Sediment's Lua contract: plain tables, no files, one process, partition 0 unless told otherwise. It says what a log
-- must contain after every call, segment by segment and byte by byte (uncompressed sizes), so that product and Kafka can be compared.
-- spec/model_spec.lua compares with it; spec/kafka/differ.py --model compares it with Kafka. Where Sediment differs from Kafka on purpose,
-- so does the model ("on purpose" below). It knows nothing of files and processes, the choice of a partition, the stage, compression, full
-- indexes, jitter, offset maps that are too small, and transactions.

local M = { _VERSION = "model" }
local stores = {}                 -- path -> what a disk would keep: { topics = { name -> topic } }

local function fail(code, ...) return nil, string.format(...), code end
local function misuse(...) error("sediment: " .. string.format(...), 3) end

-- ---------------------------------------------------------------------------------------------------------------- sizes
local HEADER = 61                 -- bytes before the records of a batch

local function varint(n)          -- bytes of a zigzag varint
  local u, bytes = n >= 0 and 2 * n or -2 * n - 1, 1
  while u >= 128 do u, bytes = math.floor(u / 128), bytes + 1 end
  return bytes
end

local function field(s) return s and varint(#s) + #s or varint(-1) end

local function record_size(r, base_timestamp, base_offset)
  local n = 1 + varint(r.timestamp - base_timestamp) + varint(r.offset - base_offset)
            + field(r.key) + field(r.value) + varint(r.headers and #r.headers or 0)
  for _, h in ipairs(r.headers or {}) do n = n + field(h[1]) + field(h[2]) end
  return varint(n) + n
end

-- A batch is { base, last, records, size, max_timestamp, horizon = ms | nil, append_time = true | nil }.
local function measure(b)
  local base_timestamp = b.horizon or b.records[1].timestamp
  b.size = HEADER
  for _, r in ipairs(b.records) do b.size = b.size + record_size(r, base_timestamp, b.base) end
end

local function newest(records)
  local max = -1
  for _, r in ipairs(records) do max = math.max(max, r.timestamp) end
  return max
end

-- -------------------------------------------------------------------------------------------------------------- segments
-- A segment is { base, batches, size, max_timestamp, created, modified, first_append }; a partition is { segments, start = log start
-- offset, end_offset, dirty = the cleaner's checkpoint | nil, floor = highest offset of a removed tombstone }. The last segment is active.
local function new_segment(base, now)
  return { base = base, batches = {}, size = 0, max_timestamp = -1, created = now, modified = now }
end

local function new_partition(now)
  return { segments = { new_segment(0, now) }, start = 0, end_offset = 0, floor = -1 }
end

local function put(seg, batch)
  seg.batches[#seg.batches + 1] = batch
  seg.size = seg.size + batch.size
  seg.max_timestamp = math.max(seg.max_timestamp, batch.max_timestamp)
end

local function active(p) return p.segments[#p.segments] end

local function largest_timestamp(seg)        -- a segment without timestamps is as old as its file
  return seg.max_timestamp >= 0 and seg.max_timestamp or seg.modified
end

local function roll(p, now)
  if active(p).size == 0 then p.segments[#p.segments] = nil end     -- an empty active segment is made anew, with the same base
  p.segments[#p.segments + 1] = new_segment(p.end_offset, now)
  return p.end_offset
end

local function segments_in(p, from, to)      -- those that hold an offset in [from, to)
  local out = {}
  if from >= to then return out end
  for i, seg in ipairs(p.segments) do
    local next_seg = p.segments[i + 1]
    if seg.base < to and (not next_seg or next_seg.base > from) then out[#out + 1] = seg end
  end
  return out
end

local function bytes_of(segments)
  local n = 0
  for _, seg in ipairs(segments) do n = n + seg.size end
  return n
end

local function each_record(p, from, to, f)   -- f(record, batch) for every record in [from, to); stops when f returns a value
  for _, seg in ipairs(segments_in(p, from, to)) do
    for _, b in ipairs(seg.batches) do
      for _, r in ipairs(b.records) do
        if r.offset >= from and r.offset < to then
          local stop = f(r, b)
          if stop ~= nil then return stop end
        end
      end
    end
  end
end

-- ------------------------------------------------------------------------------------------------------------------- configs
local BIG = 2 ^ 53
local DEFAULTS = {
  ["cleanup.policy"] = "delete", ["segment.bytes"] = 1073741824, ["segment.ms"] = 604800000, ["segment.jitter.ms"] = 0,
  ["segment.index.bytes"] = 10485760, ["index.interval.bytes"] = 4096, ["retention.bytes"] = -1, ["retention.ms"] = 604800000,
  ["file.delete.delay.ms"] = 60000, ["delete.retention.ms"] = 86400000, ["min.cleanable.dirty.ratio"] = 0.5,
  ["min.compaction.lag.ms"] = 0, ["max.compaction.lag.ms"] = BIG, ["max.message.bytes"] = 1048588,
  ["message.timestamp.type"] = "CreateTime", ["message.timestamp.before.max.ms"] = BIG, ["message.timestamp.after.max.ms"] = 3600000,
  ["compression.type"] = "producer", ["flush.messages"] = BIG, ["flush.ms"] = BIG, ["preallocate"] = false,
}
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000, w = 604800000,
                B = 1, KiB = 1024, MiB = 1048576, GiB = 1073741824, kB = 1000, MB = 1000000, GB = 1000000000 }

local function number_with_unit(v)
  if type(v) == "number" then return v end
  local digits, unit = tostring(v):match "^(%-?%d+%.?%d*)(%a*)$"
  local scale = digits and (unit == "" and 1 or UNITS[unit])
  return scale and tonumber(digits) * scale
end

local function configs(given)
  local out = {}
  for key, v in pairs(given) do
    local name = tostring(key):gsub("_", ".")
    local default = DEFAULTS[name]
    if default == nil and name ~= "partitions" then misuse("unknown config '%s'", tostring(key)) end
    if type(default) == "number" or name == "partitions" then
      local n = number_with_unit(v)
      if not n then misuse("config '%s': a number is expected, got '%s'", name, tostring(v)) end
      v = n
    elseif type(v) ~= type(default) then misuse("config '%s': a %s is expected", name, type(default)) end
    if name == "cleanup.policy" then
      for word in v:gmatch "[^,%s]+" do
        if word ~= "compact" and word ~= "delete" then misuse("config 'cleanup.policy': '%s' is neither compact nor delete", word) end
      end
    end
    out[name] = v
  end
  return out
end

local function has_policy(cfg, word) return cfg["cleanup.policy"]:find(word, 1, true) ~= nil end

local function max_segment_ms(cfg)
  if has_policy(cfg, "compact") then return math.min(cfg["segment.ms"], cfg["max.compaction.lag.ms"]) end
  return cfg["segment.ms"]
end

-- ----------------------------------------------------------------------------------------------------------------- append
local function refusal(cfg, records, now)    -- code and message for the whole batch, nil when it is good
  local early, late = cfg["message.timestamp.before.max.ms"], cfg["message.timestamp.after.max.ms"]
  local code, why
  for i, r in ipairs(records) do
    if has_policy(cfg, "compact") and r.key == nil then
      code, why = code or "invalid_record", why or ("record " .. i .. ": a compacted topic needs a key")
    elseif cfg["message.timestamp.type"] == "CreateTime" and r.timestamp ~= -1
           and (now - r.timestamp > early or r.timestamp - now > late) then
      return "invalid_timestamp", "record " .. i .. ": its timestamp is too far from the clock"
    end
  end
  return code, why
end

local function should_roll(p, cfg, batch, now)
  local seg = active(p)
  local first = seg.batches[1] and seg.batches[1].max_timestamp or -1
  local waited = first >= 0 and batch.max_timestamp - first or now - seg.created
  return seg.size + batch.size > cfg["segment.bytes"] or seg.size > 0 and waited > max_segment_ms(cfg)
end

local function append(p, cfg, given, now)
  local batch = { base = p.end_offset, last = p.end_offset + #given - 1, records = {} }
  for i, r in ipairs(given) do
    local headers = r.headers and #r.headers > 0 and r.headers or nil
    batch.records[i] = { offset = batch.base + i - 1, key = r.key, value = r.value, headers = headers, timestamp = r.timestamp or now }
  end
  measure(batch)
  if batch.size > cfg["max.message.bytes"] then return fail("too_large", "a batch of %d bytes is over max.message.bytes", batch.size) end
  local code, why = refusal(cfg, batch.records, now)
  if code then return nil, why, code end
  if batch.size > cfg["segment.bytes"] then return fail("too_large", "a batch of %d bytes is over segment.bytes", batch.size) end
  if cfg["message.timestamp.type"] == "LogAppendTime" then
    batch.append_time = true
    for _, r in ipairs(batch.records) do r.timestamp = now end       -- the size stays that of the client's timestamps
  end
  batch.max_timestamp = newest(batch.records)
  if should_roll(p, cfg, batch, now) then roll(p, now) end
  local seg = active(p)
  put(seg, batch)
  seg.modified, seg.first_append = now, seg.first_append or now
  p.end_offset = batch.last + 1
  return batch.base, batch.last
end

-- ------------------------------------------------------------------------------------------------------------------ retention
local function note_removed(p, r) if r.value == nil then p.floor = math.max(p.floor, r.offset) end end

local function drop_oldest(p, n, gone, now)
  if n == 0 then return end
  if n == #p.segments then roll(p, now) end
  each_record(p, 0, p.segments[n + 1].base, function(r) note_removed(p, r) end)
  for _ = 1, n do
    local seg = table.remove(p.segments, 1)
    gone.segments, gone.bytes = gone.segments + 1, gone.bytes + seg.size
  end
  p.start = math.max(p.start, p.segments[1].base)
end

local function count_oldest(p, deletable)    -- how many segments from the oldest on may go
  local n = 0
  for i, seg in ipairs(p.segments) do
    local last = i == #p.segments
    if last and seg.size == 0 or not deletable(seg, p.segments[i + 1]) then break end
    n = i
  end
  return n
end

local function retain(p, cfg, now, gone)
  drop_oldest(p, count_oldest(p, function(_, following) return following and following.base <= p.start end), gone, now)
  if not has_policy(cfg, "delete") then return end
  local limit, age = cfg["retention.bytes"], cfg["retention.ms"]
  if limit >= 0 then
    local over = bytes_of(p.segments) - limit
    drop_oldest(p, count_oldest(p, function(seg, following)
      if not following then return false end                         -- on purpose: size never takes the active segment
      over = over - seg.size
      return over >= 0
    end), gone, now)
  end
  if age >= 0 then
    drop_oldest(p, count_oldest(p, function(seg) return now - largest_timestamp(seg) > age end), gone, now)
  end
end

-- ----------------------------------------------------------------------------------------------------------------- compaction
local function cleanable_range(p, cfg, now)  -- first dirty offset, first uncleanable offset (a segment's base)
  local first = p.dirty or p.start
  if first < p.start or first > p.end_offset then first = p.start end
  local bound, lag = active(p).base, cfg["min.compaction.lag.ms"]
  if lag > 0 then
    for _, seg in ipairs(segments_in(p, first, active(p).base)) do
      if largest_timestamp(seg) > now - lag then bound = math.min(bound, seg.base) break end
    end
  end
  bound = math.max(first, bound)
  local holder = segments_in(p, bound, active(p).base)[1] or active(p)
  return first, holder.base
end

local function latest_offsets(p, first, bound)
  local map = {}
  each_record(p, first, bound, function(r) if r.key then map[r.key] = r.offset end end)
  return map
end

local function clean_segments(group, keep, bound, now, cfg, report)    -- one new segment for a group of old ones
  local last = group[#group]
  local out = new_segment(group[1].base, last.created)
  out.modified = last.modified
  for _, seg in ipairs(group) do
    for _, b in ipairs(seg.batches) do
      local kept, tombstone = {}, false
      for _, r in ipairs(b.records) do
        report.records_read = report.records_read + 1
        if keep(r, b) then kept[#kept + 1], tombstone = r, tombstone or r.value == nil end
      end
      report.records_written = report.records_written + #kept
      if #kept > 0 then
        local horizon = b.horizon or tombstone and now + cfg["delete.retention.ms"] or nil
        local changed = #kept < #b.records or horizon ~= b.horizon
        local batch = { base = b.base, last = b.last, records = kept, horizon = horizon, append_time = b.append_time }
        batch.max_timestamp = b.append_time and b.max_timestamp or newest(kept)
        if changed then measure(batch) else batch.size = b.size end
        put(out, batch)
      elseif b.last + 1 == bound then          -- the last batch of the round stays, empty, with what it knows
        put(out, { base = b.base, last = b.last, records = {}, size = HEADER, max_timestamp = b.max_timestamp,
                   append_time = b.append_time })
      end
    end
    report.bytes_read = report.bytes_read + seg.size
  end
  report.bytes_written = report.bytes_written + out.size
  return out
end

local function groups_of(p, bound, limit)
  local groups, size = {}, nil
  for _, seg in ipairs(segments_in(p, 0, bound)) do
    if not size or size + seg.size > limit then groups[#groups + 1], size = {}, 0 end
    table.insert(groups[#groups], seg)
    size = size + seg.size
  end
  return groups
end

local function replace(p, groups, clean)
  local fresh, upto = {}, 0
  for i, group in ipairs(groups) do fresh[i], upto = clean(group), upto + #group end
  for i = upto + 1, #p.segments do fresh[#fresh + 1] = p.segments[i] end
  p.segments = fresh
end

local function expired(r, b, now) return r.value == nil and b.horizon ~= nil and now >= b.horizon end

local function drop_tombstone(p, r, report)
  note_removed(p, r)
  report.tombstones_removed = report.tombstones_removed + 1
end

-- On purpose: tombstones of the clean part whose time is up go even if nothing is dirty.
local function purge(p, cfg, first, now, report)
  local due = each_record(p, 0, first, function(r, b) return expired(r, b, now) or nil end)
  if not due then return false end
  local groups = {}
  for i, seg in ipairs(segments_in(p, 0, first)) do groups[i] = { seg } end
  replace(p, groups, function(group)
    return clean_segments(group, function(r, b)
      if r.offset >= first or not expired(r, b, now) then return true end
      drop_tombstone(p, r, report)
      return false
    end, first, now, cfg, report)
  end)
  return true
end

local function clean(p, cfg, first, bound, now, report)
  local latest = latest_offsets(p, first, bound)
  replace(p, groups_of(p, bound, cfg["segment.bytes"]), function(group)
    return clean_segments(group, function(r, b)
      if r.key == nil then return false end
      if r.offset < (latest[r.key] or -1) then return false end
      if not expired(r, b, now) then return true end
      drop_tombstone(p, r, report)
      return false
    end, bound, now, cfg, report)
  end)
  p.dirty = bound
end

local function lag_breached(p, cfg, first, now)
  for _, seg in ipairs(segments_in(p, first, active(p).base)) do
    local t = seg.batches[1] and seg.batches[1].max_timestamp or -1
    if t > 0 and t < now - cfg["max.compaction.lag.ms"] then return true end
  end
  return false
end

local function compact(p, cfg, force, now, report)
  local first, bound = cleanable_range(p, cfg, now)
  local dirty = bytes_of(segments_in(p, math.min(first, bound), bound))
  local total = dirty + bytes_of(segments_in(p, 0, first))
  local due = force or dirty / total > cfg["min.cleanable.dirty.ratio"] or lag_breached(p, cfg, first, now)
  local done
  if dirty > 0 and due then
    clean(p, cfg, first, bound, now, report)
    done = true
  else
    done = purge(p, cfg, math.min(first, active(p).base), now, report)   -- the log may start in the active segment
  end
  if done then report.partitions = report.partitions + 1 end
end

-- ------------------------------------------------------------------------------------------------------------------------- topics
local Topic, Store, Table = {}, {}, {}
Topic.__index, Store.__index, Table.__index = Topic, Store, Table

local function open_state(self, name)
  if self.store.closed then error("sediment: " .. name .. ": the store is closed", 3) end
  return self.state
end

function Topic:config()
  local out = {}
  for name, v in pairs(self:describe()) do out[name] = v.value end
  return out
end

function Topic:describe()
  local out = {}
  for name, default in pairs(DEFAULTS) do
    local set, common = self.state.set[name], self.store.defaults[name]
    if set ~= nil then out[name] = { value = set, source = "topic" }
    elseif common ~= nil then out[name] = { value = common, source = "store" }
    else out[name] = { value = default, source = "default" } end
  end
  return out
end

function Topic:alter(given)
  local state = open_state(self, "alter")
  for name, v in pairs(configs(given)) do state.set[name] = v end
  return true
end

local function partition(self, p)
  local state = open_state(self, "topic")
  local found = state.partitions[(p or 0) + 1]
  if not found then misuse("partition %s: the topic has %d", tostring(p), #state.partitions) end
  return found
end

function Topic:append_batch(records, options)
  local p = options and options.partition or 0
  return append(partition(self, p), self:config(), records, self.store.clock())
end

function Topic:append(key, value, options)
  options = options or {}
  local record = { key = key, value = value, timestamp = options.timestamp, headers = options.headers }
  local offset, message, code = self:append_batch({ record }, options)
  if not offset then return nil, message, code end
  return offset, options.partition or 0
end

function Topic:earliest(p) return partition(self, p).start end
function Topic:latest(p) return partition(self, p).end_offset end
function Topic:flush(p) return partition(self, p).end_offset end
function Topic:roll(p) return roll(partition(self, p), self.store.clock()) end

function Topic:offset_for_time(ms, p)
  local part = partition(self, p)
  for _, seg in ipairs(part.segments) do
    if largest_timestamp(seg) >= ms then
      for _, b in ipairs(seg.batches) do
        for _, r in ipairs(b.records) do
          if r.timestamp >= ms and r.offset >= part.start then return r.offset end
        end
      end
    end                                        -- on purpose: a lookup goes on to later segments
  end
  return nil
end

function Topic:records(options)
  options = options or {}
  local p = partition(self, options.partition)
  local from = options.from or "earliest"
  if type(from) == "table" then from = self:offset_for_time(from.time, options.partition) or p.end_offset
  elseif from == "earliest" then from = p.start
  elseif from == "latest" then from = p.end_offset end
  if from < p.start or from > p.end_offset then
    error(string.format("sediment: offset %d is outside [%d, %d] (offset_out_of_range)", from, p.start, p.end_offset), 2)
  end
  local list, i = {}, 0
  each_record(p, from, math.min(options.to or p.end_offset, p.end_offset), function(r) list[#list + 1] = r end)
  return function()
    i = i + 1
    local r = list[i]
    if r then return r.offset, r.key, r.value, r.timestamp, r.headers end
  end
end

function Topic:delete_records(before, p)
  local part = partition(self, p)
  local cfg = self:config()
  if has_policy(cfg, "compact") and not has_policy(cfg, "delete") then return fail("policy", "cleanup.policy is compact without delete") end
  if before < 0 or before > part.end_offset then return fail("offset_out_of_range", "%d is outside the log", before) end
  part.start = math.max(part.start, before)
  return part.start
end

local function over_partitions(self, options, report, f)
  local state, now = open_state(self, "topic"), options and options.now or self.store.clock()
  for _, p in ipairs(state.partitions) do f(p, self:config(), now, report) end
  return report
end

function Topic:retain(options) return over_partitions(self, options, { segments = 0, bytes = 0 }, retain) end

function Topic:compact(options)
  if not has_policy(self:config(), "compact") then return fail("policy", "cleanup.policy has no compact") end
  local report = { partitions = 0, records_read = 0, records_written = 0, bytes_read = 0, bytes_written = 0,
                   tombstones_removed = 0, seconds = 0, corrupt = 0 }
  return over_partitions(self, options, report, function(p, cfg, now) compact(p, cfg, options and options.force, now, report) end)
end

function Topic:segments(p)
  local part, out = partition(self, p), {}
  for i, seg in ipairs(part.segments) do
    local n = 0
    for _, b in ipairs(seg.batches) do n = n + #b.records end
    local state = i == #part.segments and "active" or seg.base < (part.dirty or part.start) and "clean" or "dirty"
    out[i] = { base_offset = seg.base, size = seg.size, records = n, max_timestamp = seg.max_timestamp, state = state, path = "" }
  end
  return out
end

-- ------------------------------------------------------------------------------------------------------------------------- stores
function M.open(path, options)
  if type(path) ~= "string" then misuse("open: path must be a string") end
  options = options or {}
  stores[path] = stores[path] or { topics = {} }
  local self = setmetatable({ state = stores[path], defaults = configs(options.defaults or {}),
                              clock = options.clock or function() return os.time() * 1000 end }, Store)
  for _, topic in pairs(self.state.topics) do                        -- a segment's age without timestamps starts anew in every process
    for _, p in ipairs(topic.partitions) do active(p).created = self.clock() end
  end
  return self
end

function Store:close() self.closed = true return true end

function Store:topic(name, given)
  if self.closed then misuse("topic: the store is closed") end
  local state, set = self.state.topics[name], given and configs(given)
  if not state and not set then return fail("unknown_topic", "there is no topic '%s'", name) end
  if not state then
    state = { name = name, set = {}, partitions = {} }
    for i = 1, set.partitions or 1 do state.partitions[i] = new_partition(self.clock()) end
    self.state.topics[name] = state
  end
  for key, v in pairs(set or {}) do if key ~= "partitions" then state.set[key] = v end end
  return setmetatable({ store = self, state = state, name = name }, Topic)
end

function Store:topics()
  local names = {}
  for name in pairs(self.state.topics) do names[#names + 1] = name end
  table.sort(names)
  return names
end

function Store:delete_topic(name, options)
  if not self.state.topics[name] and not (options and options.if_exists) then
    return fail("unknown_topic", "there is no topic '%s'", name)
  end
  self.state.topics[name] = nil
  return true
end

function Store:maintain(options)
  local now = options and options.now or self.clock()
  local report = { segments = 0, bytes = 0, rolled = 0, cleaned = 0 }
  for _, name in ipairs(self:topics()) do
    local topic = self:topic(name)
    local cfg = topic:config()
    for _, p in ipairs(topic.state.partitions) do                    -- on purpose: segment.ms rolls an idle log as well
      local seg = active(p)
      if seg.size > 0 and now - seg.first_append > max_segment_ms(cfg) then
        roll(p, now)
        report.rolled = report.rolled + 1
      end
    end
    local cleaned = has_policy(cfg, "compact") and topic:compact { now = now }
    local gone = topic:retain { now = now }
    report.segments, report.bytes = report.segments + gone.segments, report.bytes + gone.bytes
    report.cleaned = report.cleaned + (cleaned and cleaned.partitions or 0)
  end
  return report
end

-- ------------------------------------------------------------------------------------------------------------------- state tables
function Store:table(name, options)
  local topic, message, code = self:topic(name)
  if not topic then return nil, message, code end
  return setmetatable({ topic = topic, options = options or {}, position = {}, values = {}, home = {} }, Table)
end

function Table:set(i, key, value, changes)
  local old, f = self.values[key], self.options.on_change
  if value ~= nil and self.options.decode then value = self.options.decode(value, key) end
  self.values[key], self.home[key] = value, i
  if f and value ~= old then f(key, value, old) end
  return changes + 1
end

-- A reader behind the purge floor or the log start may have missed a deletion: it reads all anew and sweeps what is gone.
function Table:update()
  local changes = 0
  for i, p in ipairs(self.topic.state.partitions) do
    local from, seen = self.position[i] or 0, nil
    if from > 0 and (from <= p.floor or from < p.start) then from, seen = 0, {} end
    each_record(p, math.max(from, p.start), p.end_offset, function(r)
      if r.key == nil then return end
      if seen then seen[r.key] = r.value ~= nil or nil end
      changes = self:set(i, r.key, r.value, changes)
    end)
    for key in pairs(seen and self.values or {}) do
      if self.home[key] == i and not seen[key] then changes = self:set(i, key, nil, changes) end
    end
    self.position[i] = p.end_offset
  end
  return changes
end

function Table:get(key) return self.values[key] end
function Table:pairs() return pairs(self.values) end
function Table:close() return true end

function Table:count()
  local n = 0
  for _ in pairs(self.values) do n = n + 1 end
  return n
end

return M

-- What comes to a consumer of a cluster, and where that stands.
--
-- A feed has a *place* for each partition that is the consumer's: the position, which is behind what was given to the program, and whether
-- all that was in the partition has come. librdkafka fetches ahead; what it brings is met in order. An answer "there is nothing" is given
-- only when each partition has told that it is read up to its end, so that a loop over poll ends where the logs end, as it does on a store
-- in a folder; what does not tell within the store's timeout_ms is a failure.
local core = require "sediment.kafka.core"
local consumer_options = require "sediment.consumer_options"

local Feed = {}
Feed.__index = Feed

local SLICE_MS, LOOK_MS = 200, 10000      -- between hooks; between looks for new partitions, without a group
local ASK_MS, IDLE_ASK_MS = 1000, 3000    -- between looks whether a silent partition is there at all; where all were read
local MAX_BYTES = 50 * 1024 * 1024        -- Kafka's fetch.max.bytes

-- ------------------------------------------------------------------------------------------------------------------------------ places

local function new_place(topic, p) return { topic = topic, partition = p, at_end = false, paused = false, waiting = 0 } end

local function place_at(self, topic, p) return self.by_topic[topic] and self.by_topic[topic][p] end

local function set_places(self, places)
  table.sort(places, function(a, b)
    if a.topic ~= b.topic then return a.topic < b.topic end
    return a.partition < b.partition
  end)
  self.places, self.by_topic = places, {}
  for _, place in ipairs(places) do
    self.by_topic[place.topic] = self.by_topic[place.topic] or {}
    self.by_topic[place.topic][place.partition] = place
  end
end

-- What waits for partitions that are another member's by now is not given.
local function drop_waiting(self, keep)
  local ready = {}
  for i = self.next, #self.ready do
    local record = self.ready[i]
    if keep(record) then ready[#ready + 1] = record end
  end
  self.ready, self.next = ready, 1
end

-- Takes over what the group has given us. Where all was lost in between, what is ours now is read from the commits on.
local function reassign(self)
  local list, epoch, joined = self.source:assignment()
  local same, places = epoch == self.epoch, {}
  for i = 1, #list, 2 do
    local topic, p = list[i], list[i + 1]
    places[#places + 1] = same and place_at(self, topic, p) or new_place(topic, p)
  end
  self.epoch, self.joined = epoch, joined
  drop_waiting(self, function(record) return same and place_at(self, record.topic, record.partition) ~= nil end)
  set_places(self, places)
  self.missing = {}
end

--- The place of a partition; nil, message, code: why there is none.
function Feed:place(topic, p)
  local place = place_at(self, topic, p)
  if place then return place end
  if not self.wanted[topic] then return nil, ("the consumer does not read topic '%s'"):format(topic), "unknown_topic" end
  local log_start, message, code = self:bounds(topic, p)
  if not log_start then return nil, message, code end
  local other = "group '%s': %s-%.0f is another member's; poll again, and go on with what it gives"
  return nil, other:format(self.group, topic, p), "fenced"
end

--- Where a partition begins and ends; with `ms`, one try that takes no longer.
function Feed:bounds(topic, p, ms)
  local handle, message, code = self:topic(topic)
  if not handle then return nil, message, code end
  return core.bounds(handle, p, ms)
end

--- The handle of a topic.
function Feed:topic(name)
  local handle, message, code = self.handles[name], nil, nil
  if not handle then handle, message, code = core.topic_of(self.store, name) end
  self.handles[name] = handle
  return handle, message, code
end

-- -------------------------------------------------------------------------------------------------------------------------- failures

-- A place without a position, or whose position the log does not have any more, goes by auto_offset_reset.
local function begin_anew(self, place, had)
  local start, log_end, code = self:bounds(place.topic, place.partition)
  if not start then return nil, log_end, code end
  if self.reset == "none" then
    place.failure = consumer_options.outside(place, had, start, log_end)
    place.code = "offset_out_of_range"
    return true
  end
  return self:go(place, self.reset == "latest" and log_end or start)
end

-- A topic that a broker has not heard of yet is no failure; librdkafka is made to ask again.
local function is_late(self, topic, code)
  return code == "unknown_topic" and core.topic_of(self.store, topic) and self.source:look() and true
end

local function note_failure(self, message, code, topic, p, offset)
  local place = topic and place_at(self, topic, p)
  if not place then
    if topic and not is_late(self, topic, code) then self.missing[topic] = { message, code } end
    return topic and true or nil, message, code
  end
  if code == "offset_out_of_range" and not self.group then return begin_anew(self, place, place.position) end
  if code == "offset_out_of_range" and offset < 0 and place.position then return true end       -- from before it was sought
  if code == "offset_out_of_range" then
    local start, log_end, why = self:bounds(topic, p)
    if not start then return nil, log_end, why end
    message = consumer_options.outside(place, offset >= 0 and offset or nil, start, log_end)
  end
  place.failure, place.code = message, code
  return true
end

-- Told once, but for what only a seek or a topic that comes back can end.
local STAYS = { offset_out_of_range = true, unknown_topic = true }

local function failure(self)
  local topic, what = next(self.missing)
  if topic then
    if not STAYS[what[2]] then self.missing[topic] = nil end
    return what[1], what[2]
  end
  for _, place in ipairs(self.places) do
    local message, code = place.failure, place.code
    if message and not place.paused then
      if not STAYS[code] then place.failure = nil end
      return message, code
    end
  end
end

-- ---------------------------------------------------------------------------------------------------------------------------- coming

local function note_end(self, topic, p, offset)
  local place = place_at(self, topic, p)
  if not place then return end
  place.at_end, place.sure, place.failure = true, false, nil
  if place.waiting == 0 then place.position = offset end
end

-- One thing that comes within wait_ms is taken note of: whether there was one, and the record, if it was one of ours. nil, message, code: a
-- failure of no partition.
local function meet(self, wait_ms)
  local record, a, b, c, d, e = self.source:next(wait_ms)
  if record then return true, place_at(self, record.topic, record.partition) and record end
  if record == false and a then note_end(self, a, b, c)
  elseif record == false then reassign(self)
  elseif a then return note_failure(self, a, b, c, d, e)
  else return false end
  return true
end

-- The same, and a record waits to be taken.
local function step(self, wait_ms)
  local came, record, code = meet(self, wait_ms)
  if not came or not record then return came, record, code end
  local place = place_at(self, record.topic, record.partition)
  place.waiting = place.waiting + 1
  self.ready[#self.ready + 1] = record
  return true
end

-- The members that this Lua state has open. A group divides its partitions only when each member has been asked; one that waits for that
-- asks those beside it, which the program cannot as long as it waits itself.
local members = setmetatable({}, { __mode = "k" })
local SIBLING_SLICE_MS, SIBLING_RECORDS = 20, 1000

local function serve_siblings(self)
  local any = false
  for other in pairs(members) do
    if other ~= self and other.group == self.group and other.store == self.store and not other.closed then
      any = true
      while #other.ready - other.next < SIBLING_RECORDS and step(other, 0) do end
    end
  end
  return any
end

-- step, for a while at most.
local function wait(self, left)
  local slice = self.group and serve_siblings(self) and SIBLING_SLICE_MS or SLICE_MS
  return step(self, math.min(left, slice))
end

-- It is given to the program.
local function deliver(self, record)
  local place = place_at(self, record.topic, record.partition)
  place.position, place.failure = record.offset + 1, nil
  place.at_end = false
  return record
end

-- The next record that waits.
local function take(self)
  local record = self.ready[self.next]
  if not record then
    if self.next > 1 then self.ready, self.next = {}, 1 end
    return nil
  end
  self.ready[self.next] = false
  self.next = self.next + 1
  local place = place_at(self, record.topic, record.partition)
  local at_end = place.at_end
  place.waiting = place.waiting - 1
  deliver(self, record)
  place.at_end = at_end
  return record
end

-- What is there, as far as there is room.
local function gather(self, max)
  local list, bytes_left = {}, MAX_BYTES
  while #list < max and bytes_left > 0 do
    local record = take(self)
    if not record then
      local came, code
      came, record, code = meet(self, 0)
      if came == nil and #list == 0 then return nil, record, code end
      if not came then break end
      if record then deliver(self, record) end
    end
    if record then
      list[#list + 1] = record
      bytes_left = bytes_left - #(record.key or "") - #(record.value or "")
    end
  end
  return list
end

-- The first place that has not told yet that it was read up to its end.
local function unsettled(self)
  for _, place in ipairs(self.places) do
    if not (place.at_end or place.paused or place.failure) then return place end
  end
end

-- A leader that has just come back may tell an end too early. Before "there is nothing" is said, each end is held against what the leader
-- knows: whether all are. nil, message, code.
local function are_ends(self)
  local good = true
  for _, place in ipairs(self.places) do
    if place.at_end and not place.sure and not place.paused then
      local log_end, message, code = self.source:log_end(place.topic, place.partition)
      if not log_end then return nil, message, code end
      place.sure = place.position >= log_end
      place.at_end = place.sure
      good = good and place.sure
    end
  end
  return good
end

-- A partition that tells nothing is asked after now and then, for its topic may be gone: one that was not read up to its end, else each in
-- turn.
local function is_missing(self, place)
  local now = core.monotonic_ms()
  if now - self.asked_ms < (place and ASK_MS or IDLE_ASK_MS) or not self.places[1] then return false end
  self.asked_ms, self.turn = now, self.turn % #self.places + 1
  place = place or self.places[self.turn]
  local start, message, code = self:bounds(place.topic, place.partition, ASK_MS / 2)
  if not start and (code == "unknown_topic" or code == "unknown_partition") then return true, message, code end
  return false
end

local function no_answer(self, place)
  local start, message, code = self:bounds(place.topic, place.partition, 1)
  if not start then return nil, message, code end
  return nil, ("%s-%d: no records, and no end, within timeout_ms"):format(place.topic, place.partition), "timeout"
end

--- Records, up to `max`; an empty list when none came in time.
function Feed:poll(max, timeout_ms)
  local began = core.monotonic_ms()
  local until_ms, patience = began + timeout_ms, began + math.max(timeout_ms, core.timeout_ms(self.store))
  while true do
    local list, message, code = self:look(max)
    if not list or #list > 0 then return list, message, code end
    message, code = failure(self)
    if message then return nil, message, code end
    local place = unsettled(self)
    local gone, why, what = is_missing(self, place)
    if gone then return nil, why, what end
    local left = (place and patience or until_ms) - core.monotonic_ms()
    if left <= 0 then
      if place then return no_answer(self, place) end
      local good
      good, message, code = are_ends(self)
      if good ~= false then return good and list, message, code end
    end
    local came
    came, message, code = wait(self, math.max(left, 0))
    if came == nil then return nil, message, code end
  end
end

--- What is there without waiting. Of a consumer without a group, now and then also whether topics have more partitions.
function Feed:look(max)
  if not self.group and core.monotonic_ms() - self.looked_ms > LOOK_MS then
    local done, message, code = self:take_all()
    if not done then return nil, message, code end
  end
  return gather(self, max)
end

--- Serves the group, so that what is told of it is as of now.
function Feed:serve()
  local came, message, code
  repeat came, message, code = step(self, 0) until not came or #self.ready >= self.next
  if came == nil then return nil, message, code end
  return true
end

-- -------------------------------------------------------------------------------------------------------------------------- standing

--- Where a place stands, found out if that is not known yet. nil, message, code.
function Feed:position(place)
  if place.failure and STAYS[place.code] then return nil, place.failure, place.code end
  if place.position then return place.position end
  local offset, message, code = self.source:committed(place.topic, place.partition)
  if message and code then return nil, message, code end
  if offset then return offset end
  local start, log_end, why = self:bounds(place.topic, place.partition)
  if not start then return nil, log_end, why end
  if self.reset == "none" then return nil, consumer_options.outside(place, nil, start, log_end), "offset_out_of_range" end
  return self.reset == "latest" and log_end or start
end

local function forget_waiting(self, place)
  if place.waiting == 0 then return end
  place.waiting = 0
  drop_waiting(self, function(record) return record.topic ~= place.topic or record.partition ~= place.partition end)
end

--- Reads on from an offset.
function Feed:go(place, offset)
  local done, message, code
  forget_waiting(self, place)
  if self.group then done, message, code = self.source:seek(place.topic, place.partition, offset)
  elseif place.paused then done = true
  else done, message, code = self.source:start(place.topic, place.partition, offset) end
  if not done then return nil, message, code end
  place.position, place.at_end, place.failure = offset, false, nil
  return true
end

--- Leaves a place out, or not any more. What waits of it comes again.
function Feed:pause(place, paused)
  if place.paused == paused then return true end
  local first, done, message, code
  for i = self.next, #self.ready do
    local record = self.ready[i]
    if not first and record.topic == place.topic and record.partition == place.partition then first = record.offset end
  end
  if self.group then
    done, message, code = self.source:pause(place.topic, place.partition, paused)
    if done and first then done, message, code = self:go(place, first) end
  elseif paused then
    done, message, code = self.source:stop(place.topic, place.partition)
    forget_waiting(self, place)
    place.at_end = false
  else
    done, message, code = self.source:start(place.topic, place.partition, place.position)
  end
  if done then place.paused = paused end
  return done, message, code
end

-- ---------------------------------------------------------------------------------------------------------------------------- opening

--- All partitions of all topics, for one without a group: those that are new begin as auto_offset_reset says, or at their start when the
--- topic has got them since.
function Feed:take_all()
  local places, fresh = {}, {}
  for name in pairs(self.wanted) do
    local handle, message, code = self:topic(name)
    local count
    if handle then count, message, code = handle:partitions() end
    if not count then return nil, message, code end
    for p = 0, count - 1 do
      local place = place_at(self, name, p)
      if not place then
        place = new_place(name, p)
        fresh[#fresh + 1] = place
      end
      places[#places + 1] = place
    end
  end
  set_places(self, places)
  for _, place in ipairs(fresh) do
    local done, message, code = begin_anew(self, place)
    if not done then return nil, message, code end
  end
  self.looked_ms = core.monotonic_ms()
  return true
end

-- Until the group has told what is ours.
local function join(self)
  local until_ms = core.monotonic_ms() + core.timeout_ms(self.store)
  while not self.joined do
    local left = until_ms - core.monotonic_ms()
    if left <= 0 then return nil, ("group '%s': not joined within timeout_ms"):format(self.group), "timeout" end
    local came, message, code = wait(self, left)
    if came == nil then return nil, message, code end
    message, code = failure(self)
    if message and code ~= "offset_out_of_range" then return nil, message, code end
  end
  return true
end

local function check_topics(self)
  for name in pairs(self.wanted) do
    local handle, message, code = self:topic(name)
    if not handle then return nil, message, code end
  end
  return true
end

--- `given`: what consumer_options.take has made of the options of store:consumer.
function Feed.open(store, given)
  local self = setmetatable({
    store = store, group = given.group, reset = given.reset, wanted = {}, handles = {},
    places = {}, by_topic = {}, missing = {},             -- missing: topic -> { message, code }
    ready = {}, next = 1,                                  -- records that were met and not given yet, from `next` on
    epoch = 0, joined = false, looked_ms = 0, asked_ms = core.monotonic_ms(), turn = 0, closed = false,
  }, Feed)
  for _, name in ipairs(given.topics) do self.wanted[name] = true end
  local done, message, code = check_topics(self)
  if not done then return nil, message, code end
  local reset = given.reset == "none" and "error" or given.reset
  self.source, message, code = core.source(store, given.uncommitted, given.group, given.topics, reset)
  if not self.source then return nil, message, code end
  if given.group then
    members[self] = true
    done, message, code = join(self)
  else
    done, message, code = self:take_all()
  end
  if done then return self end
  self:close()
  return nil, message, code
end

--- Leaves the group. nil, message, code, when it did not answer; it is closed in any case.
function Feed:close()
  self.closed, members[self] = true, nil
  return self.source:close()
end

return Feed

-- Consumers: reading topics together with the other members of a group, or alone.
--
-- A consumer has a *share* for each partition that it reads: where it stands, and a reader that stays open between polls. What the
-- position says has been delivered; what is committed is up to the program.
local core = require "sediment.core"
local check = require "sediment.check"
local consumer_options = require "sediment.consumer_options"
local group = require "sediment.group"
local groups = require "sediment.groups"
local offsets = require "sediment.offsets"
local Share = require "sediment.share"

local Consumer = {}
Consumer.__index = Consumer
Consumer.__name = "sediment.consumer"

local MAX_RECORDS, MAX_BYTES = 500, 50 * 1024 * 1024     -- Kafka's max.poll.records and fetch.max.bytes
local SLICE, LONE_SLICE = 50, 500                        -- milliseconds between looks for members; for new partitions alone

-- ------------------------------------------------------------------------------------------------------------------------------ checks

local function check_self(self, method, level)
  level = level or 3
  if getmetatable(self) ~= Consumer then
    error("bad argument #1 to '" .. method .. "' (sediment.consumer expected, got " .. type(self) .. "; call it with ':')", level)
  end
  if self.closed then error("use after close: the consumer is closed", level) end
  if self.life.closed then error("use after close: the store is closed", level) end
end

-- ------------------------------------------------------------------------------------------------------------------------------ shares

-- Shares for what is assigned: those that stay keep where they stand. In the order of topics as they were given, and of partitions.
local function reshare(self, assignment)
  local shares, by_topic = {}, {}
  for _, topic in ipairs(self.topics) do
    local numbers, before, mine = assignment[topic] or {}, self.by_topic[topic] or {}, {}
    for p = 0, (self.counts[topic] or 0) - 1 do
      if numbers[p] then
        local share = before[p]
        if not share or share.number ~= numbers[p] then share = Share.new(topic, p, numbers[p]) end
        before[p] = before[p] ~= share and before[p] or nil
        mine[p], shares[#shares + 1] = share, share
      end
    end
    for _, share in pairs(before) do Share.drop_reader(share) end
    by_topic[topic] = mine
  end
  self.shares, self.by_topic = shares, by_topic
  if self.cursor > #shares then self.cursor = 1 end
end

-- All partitions of all topics, for one without a group.
local function everything(self)
  local assignment, changed = {}, false
  for _, topic in ipairs(self.topics) do
    local count, message, code = Share.count_of(self, topic)
    if not count then return nil, message, code end
    changed = changed or self.counts[topic] ~= count
    self.counts[topic], assignment[topic] = count, {}
    for p = 0, count - 1 do assignment[topic][p] = 0 end
  end
  if changed then reshare(self, assignment) end
  return true
end

-- Takes over what has changed in the group or in the topics.
local function refresh(self)
  if not self.member then return everything(self) end
  local changed, message, code = self.member:refresh()
  if changed == nil then return nil, message, code end
  if changed or self.fresh then
    self.fresh, self.counts = false, self.member.counts
    reshare(self, self.member.assignment)
  end
  return true
end

-- Records of all shares in turn, beginning behind the one that was read last. A failure of the first of them is told at once; the next
-- call begins behind it, so that it keeps nobody from the others.
local function fetch(self, max)
  local list, bytes_left, count = {}, MAX_BYTES, #self.shares
  local message, code
  for _ = 1, count do
    local share = self.shares[self.cursor]
    if not share.paused and #list < max and bytes_left > 0 then
      local bytes, why, what = Share.read(self, share, list, max - #list, bytes_left)
      if bytes then bytes_left = bytes_left - bytes elseif not message then message, code = why, what end
    end
    if #list >= max or bytes_left <= 0 or (message and #list == 0) then
      self.cursor = self.cursor % count + 1
      break
    end
    self.cursor = self.cursor % count + 1
  end
  if message and #list == 0 then return nil, message, code end
  return list
end

-- What can be waited for: { topic, partition, offset, ... }. What was there at the last look and was not given, of an open transaction,
-- is not news.
local function awaited(self)
  local list = {}
  for _, share in ipairs(self.shares) do
    local topic = not share.paused and share.position and self.handles[share.topic]
    if topic then
      list[#list + 1], list[#list + 2], list[#list + 3] = topic, share.partition, math.max(share.position, share.seen or 0)
    end
  end
  return list
end

-- Until a share may have more, the members have changed, or the time is over.
local function wait(self, left)
  local list = awaited(self)
  return self.wait_any(list, math.min(left, self.member and SLICE or LONE_SLICE))
end

-- A missing topic is told of, and the others go on.
local function missing(self)
  for _, name in ipairs(self.topics) do
    if (self.counts[name] or 0) == 0 then return name end
  end
end

local function poll(self, max, timeout_ms)
  local until_ms = timeout_ms > 0 and core.monotonic_ms() + timeout_ms
  while true do
    local done, message, code = refresh(self)
    if not done then return nil, message, code end
    local list
    list, message, code = fetch(self, max)
    if not list or #list > 0 then return list, message, code end
    local name = missing(self)
    if name then return nil, "there is no topic '" .. name .. "' (any more)", "unknown_topic" end
    local left = until_ms and until_ms - core.monotonic_ms() or 0
    if left <= 0 then return list end
    done, message, code = wait(self, left)
    if done == nil then return nil, message, code end
    if done == "over" then return list end
  end
end

-- What a call that raises has taken it has not given: it is taken back.
local function finish(self, ok, ...)
  local taken = self.taken
  for share, position in pairs(taken) do
    taken[share] = nil
    if not ok then
      Share.drop_reader(share)
      share.position = position
    end
  end
  if not ok then error(..., 0) end
  return ...
end

local function poll_or_nothing(self, max, timeout_ms) return finish(self, pcall(poll, self, max, timeout_ms)) end

local POLL = { max = "count", timeout_ms = "count" }

function Consumer:poll(options)
  check_self(self, "poll")
  options = check.options("poll", 1, options, POLL)
  return poll_or_nothing(self, options.max or MAX_RECORDS, options.timeout_ms or 0)
end

-- -------------------------------------------------------------------------------------------------------------------------- commits

local function share_of(self, topic, p) return self.by_topic[topic] and self.by_topic[topic][p] end

-- The positions that have moved since they were committed, in the topic of commits that is there now.
local function list_moved(self)
  local list, place = {}, self.commits:place()
  for _, share in ipairs(self.shares) do
    local is_committed = share.position == share.committed and place and share.committed_in == place
    if share.position and not is_committed and not share.wants_resync then
      list[#list + 1] = { topic = share.topic, partition = share.partition, offset = share.position }
    end
  end
  return list
end

local function to_commit(self, what)
  if what == nil then return list_moved(self) end
  return consumer_options.places(what, core.option(self.store, "offset.metadata.max.bytes"))
end

local COMMIT = { sync = "boolean" }

-- The share of a partition, and why there is none.
local function own_share(self, topic, p)
  local share = share_of(self, topic, p)
  if share then return share end
  local count = self.counts[topic]
  if not count then return nil, ("the consumer does not read topic '%s'"):format(topic), "unknown_topic" end
  if p >= count or p < 0 then return nil, ("topic '%s' has no partition %.0f; it has %d"):format(topic, p, count), "unknown_partition" end
  return nil, ("group '%s': %s-%.0f is another member's; poll again, and go on with what it gives"):format(self.name, topic, p), "fenced"
end

-- Completes a list of commits: by which number each partition is this consumer's, and of which topic it is.
local function number(self, list)
  for _, c in ipairs(list) do
    local share, topic, message, code
    share, message, code = own_share(self, c.topic, c.partition)
    if share then topic, message, code = Share.topic_of(self, c.topic) end
    if not topic then return nil, message, code end
    c.number, c.topic_id = share.number, core.topic_id(topic)
    if share.topic_id and share.topic_id ~= c.topic_id then
      return nil, ("topic '%s' was deleted and made anew; poll again"):format(c.topic), "unknown_topic"
    end
  end
  return true
end

local function commit(self, list, sync)
  if #list == 0 and not sync then return true end
  local done, message, code = number(self, list)
  if done then done, message, code = self.member:while_owned(list, function() return self.commits:put(list) end) end
  if done and sync then done, message, code = self.commits:flush() end
  if not done then return nil, message, code end
  for _, c in ipairs(list) do
    local share = share_of(self, c.topic, c.partition)
    if share then share.committed, share.committed_in = c.offset, self.commits:place() end
  end
  return true
end

function Consumer:commit(what, options)
  check_self(self, "commit")
  if not self.commits then error("commit: this consumer has no group; give group= to store:consumer", 2) end
  options = check.options("commit", 2, options, COMMIT)
  return commit(self, to_commit(self, what), options.sync)
end

function Consumer:committed(topic, p)
  check_self(self, "committed")
  p = consumer_options.partition("committed", topic, p)
  if not self.commits then return nil end
  local handle = Share.topic_of(self, topic)
  local found, message, code = self.commits:get(topic, p, handle and core.topic_id(handle))
  if not found then return nil, message, code end
  return found.offset, found.metadata
end

-- ------------------------------------------------------------------------------------------------------------------------- positions

-- The same as of now.
local function share_now(self, topic, p)
  local done, message, code = refresh(self)
  if not done then return nil, message, code end
  return own_share(self, topic, p)
end

function Consumer:position(topic, p)
  check_self(self, "position")
  local share, message, code = share_now(self, topic, consumer_options.partition("position", topic, p))
  if not share then return nil, message, code end
  local done
  done, message, code = Share.locate(self, share)
  if not done then return nil, message, code end
  return share.position
end

local function seek_target(topic, p, to, start, log_end)
  if to == "earliest" then return start end
  if to == "latest" then return log_end end
  if type(to) == "table" then
    local offset, message, code = topic:offset_for_time(to.time, p)
    if not offset and message then return nil, message, code end
    return offset or log_end
  end
  return to
end

function Consumer:seek(topic, p, to)
  check_self(self, "seek")
  p = consumer_options.partition("seek", topic, p)
  consumer_options.target(to)
  local share, message, code = share_now(self, topic, p)
  if not share then return nil, message, code end
  local handle
  handle, message, code = Share.topic_of(self, topic)
  if not handle then return nil, message, code end
  local start, log_end, floor = core.bounds(handle, share.partition)
  if not start then return nil, log_end, floor end
  local offset
  offset, message, code = seek_target(handle, share.partition, to, start, log_end)
  if not offset then return nil, message, code end
  share.topic_id = core.topic_id(handle)
  return Share.stand(share, offset, floor)
end

local function set_paused(self, topic, p, paused)
  local share, message, code = share_now(self, topic, p)
  if not share then return nil, message, code end
  share.paused = paused
  return true
end

function Consumer:pause(topic, p)
  check_self(self, "pause")
  return set_paused(self, topic, consumer_options.partition("pause", topic, p), true)
end

function Consumer:resume(topic, p)
  check_self(self, "resume")
  return set_paused(self, topic, consumer_options.partition("resume", topic, p), false)
end

function Consumer:assignment()
  check_self(self, "assignment")
  local done, message, code = refresh(self)
  if not done then return nil, message, code end
  return consumer_options.assignment(self.shares)
end

-- How far a share is from the end of the log.
local function lag_of(self, share)
  local topic, message, code = Share.topic_of(self, share.topic)
  if not topic then return nil, message, code end
  local start, log_end, floor = core.bounds(topic, share.partition)
  if not start then return nil, log_end, floor end
  local from = share.position
  if not from and self.commits then
    local committed
    committed, message, code = self.commits:get(share.topic, share.partition, core.topic_id(topic))
    if message then return nil, message, code end
    from = committed and committed.offset
  end
  return math.max(0, log_end - math.max(from or start, start))
end

function Consumer:lag()
  check_self(self, "lag")
  local done, message, code = refresh(self)
  if not done then return nil, message, code end
  return consumer_options.lag(self.shares, function(share) return lag_of(self, share) end)
end

-- ------------------------------------------------------------------------------------------------------------------------- iterating

function Consumer:records(options)
  check_self(self, "records")
  local every, timeout_ms = consumer_options.iteration(options, self.commits)
  return consumer_options.iterator(every, timeout_ms, function() check_self(self, "records", 4) end,
    function(wait_ms) return poll_or_nothing(self, 1, wait_ms) end, function() return commit(self, list_moved(self)) end,
    function() return refresh(self) end)
end

-- ------------------------------------------------------------------------------------------------------------------- opening and closing

function Consumer:close()
  if getmetatable(self) ~= Consumer then check_self(self, "close") end
  if self.closed then return true end
  self.closed = true
  for _, share in ipairs(self.shares) do Share.drop_reader(share) end
  if not self.member or self.life.closed then return true end
  local done, message, code = self.member:leave()
  if not done then return nil, message, code end
  return true
end

Consumer.__close = Consumer.close

function Consumer:__tostring()
  return ("sediment.consumer (%s)"):format(self.closed and "closed" or self.name or "no group")
end

-- Where "latest" is for a group is decided once, when it begins: it is committed at once, or the next owner of a partition would find a
-- later end.
local function begin(self)
  local done, message, code = refresh(self)
  if not done or self.reset ~= "latest" then return done, message, code end
  for _, share in ipairs(self.shares) do
    done, message, code = Share.locate(self, share)
    if not done and code ~= "resync" then return nil, message, code end
  end
  done, message, code = commit(self, list_moved(self))
  return done or code == "fenced" or nil, message, code
end

-- store:consumer{...}; described in sediment/types.lua.
local function open(store, options)
  check.store(store, "consumer")
  local given = consumer_options.take(options)
  local self = setmetatable({
    store = store, life = core.life(store), topics = given.topics, name = given.group, handles = {}, closed = false,
    reset = given.reset, uncommitted = given.uncommitted, on_corrupt = given.on_corrupt,
    shares = {}, by_topic = {},           -- in their order; topic -> partition -> share
    counts = {},                          -- topic -> partitions, 0 when it is missing
    cursor = 1,                           -- which share is read next
    taken = {}, opened = {},              -- share -> its position before the call that is under way; shares whose readers were opened
    fresh = true,                         -- the member's assignment is not taken over yet
    wait_any = core.wait_any,
  }, Consumer)
  for _, name in ipairs(given.topics) do
    local topic, message, code = Share.topic_of(self, name)
    if not topic then return nil, message, code end
  end
  if not self.name then
    everything(self)
    return self
  end
  groups.expire_now_and_then(store)
  self.commits = offsets.of_group(store, self.name)
  local message, code
  self.member, message, code = group.join(store, self.name, given.topics, {
    count_of = function(name) return Share.count_of(self, name) end,
    joined = function() return self.commits:note_empty(false) end,
    emptied = function() return self.commits:note_empty(true) end,
  })
  if not self.member then return nil, message, code end
  local done
  done, message, code = begin(self)
  if done then return self end
  self:close()
  return nil, message, code
end

return { open = open }

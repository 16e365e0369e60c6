-- Committed offsets: the topic `__consumer_offsets`, in the record format of Kafka's group coordinator.
--
-- An offset is a record whose key is group, topic and partition; a tombstone takes it back. Values have version 4, which carries the id
-- of the topic: what was committed for a topic that was deleted does not count for another one of its name, whatever fails between the
-- deletion and the tombstones. A group's own record says since when it has no members: from then on its offsets expire
-- (offsets.retention.minutes).
local core = require "sediment.core"
local bytes = require "sediment.bytes"
local state_table = require "sediment.table"

local offsets = {}

offsets.TOPIC = "__consumer_offsets"

local OFFSET_KEY, GROUP_KEY = 1, 2        -- versions that keys begin with; 0 was Kafka 0.8's for offsets
local OFFSET_VALUE, GROUP_VALUE = 4, 3
local TOPIC_ID_TAG = 0

-- ---------------------------------------------------------------------------------------------------------------------------- the format

function offsets.group_key(group) return bytes.i16(GROUP_KEY) .. bytes.text(group) end

function offsets.key(group, topic, p) return bytes.i16(OFFSET_KEY) .. bytes.text(group) .. bytes.text(topic) .. bytes.i32(p) end

--- What a key says: { group=, topic=, partition= }, without the last two for a group's own record. nil: none that is understood.
function offsets.decode_key(key)
  local r = bytes.reader(key)
  local version = r:i16()
  local group = r:text()
  if version == GROUP_KEY then return group and { group = group } end
  if version ~= OFFSET_KEY and version ~= 0 then return nil end
  local topic, p = r:text(), r:i32()
  return p and { group = group, topic = topic, partition = p }
end

--- The value of an offset. `commit`: { offset=, metadata=, timestamp=, topic_id= }.
function offsets.value(commit)
  local id, metadata = commit.topic_id, commit.metadata or ""
  local tags = id and bytes.varint(1) .. bytes.varint(TOPIC_ID_TAG) .. bytes.varint(#id) .. id or bytes.varint(0)
  return bytes.i16(OFFSET_VALUE) .. bytes.i64(commit.offset) .. bytes.i32(-1) .. bytes.varint(#metadata + 1) .. metadata ..
         bytes.i64(commit.timestamp) .. tags
end

local function tagged_id(r)
  for _ = 1, r:varint() or 0 do
    local tag, size = r:varint(), r:varint()
    local data = r:take(size or -1)
    if not data then return nil end
    if tag == TOPIC_ID_TAG and not data:find "^%z+$" then return data end
  end
  return nil
end

--- Such a commit from a value of any version that Kafka has written; nil: none that is understood.
function offsets.decode_value(value)
  local r = bytes.reader(value)
  local version, commit = r:i16(), { offset = r:i64() }
  if not version or version < 0 or version > OFFSET_VALUE then return nil end
  if version >= 3 then r:i32() end                                             -- leader epoch
  if version >= 4 then commit.metadata = r:take((r:varint() or 0) - 1) else commit.metadata = r:text() end
  commit.timestamp = r:i64()
  if version >= 4 then commit.topic_id = tagged_id(r) end
  return r.at and commit.timestamp and commit or nil
end

-- The record of a group that has no members since then: no protocol, no leader, no members.
local function empty_group(timestamp)
  local none = bytes.i16(-1)
  return bytes.i16(GROUP_VALUE) .. bytes.text "consumer" .. bytes.i32(0) .. none .. none .. bytes.i64(timestamp) .. bytes.i32(0)
end

local function nullable_text(r)
  local size = r:i16()
  return size and size >= 0 and r:take(size) or nil
end

-- What a consumer's assignment says: { topic = { partition, ... } }; those of other protocols say nothing.
local function decode_assignment(data)
  local r, topics = bytes.reader(data), {}
  r:i16()
  for _ = 1, r:i32() or 0 do
    local topic, list = r:text(), {}
    for i = 1, r:i32() or 0 do
      list[i] = r:i32()
      if not list[i] then return topics end
    end
    if not topic then return topics end
    topics[topic] = list
  end
  return topics
end

local function decode_member(r, version)
  local m = { id = r:text() }
  if version >= 3 then nullable_text(r) end                                     -- group instance id
  m.client_id, m.host = r:text(), r:text()
  if version >= 1 then r:i32() end                                              -- rebalance timeout
  r:i32()                                                                       -- session timeout
  r:take(r:i32() or -1)                                                         -- subscription
  local assignment = r:take(r:i32() or -1)
  m.assignment = assignment and decode_assignment(assignment)
  return assignment and m
end

--- What a group's own record says, in the versions 0 to 3, which are all that brokers write: { generation=, timestamp= since when it is so,
--- members = { { id=, client_id=, host=, assignment= }, ... } }; nil: none that is understood.
function offsets.decode_group(value)
  local r = bytes.reader(value)
  local version, g = r:i16(), { members = {} }
  if not version or version < 0 or version > GROUP_VALUE then return nil end
  r:text()                                                                      -- protocol type
  g.generation = r:i32()
  nullable_text(r)                                                              -- protocol
  nullable_text(r)                                                              -- leader
  if version >= 2 then g.timestamp = r:i64() end
  for i = 1, r:i32() or 0 do
    g.members[i] = decode_member(r, version)
    if not g.members[i] then return nil end
  end
  return r.at and g
end

-- Since when: nil for a group that has members, or whose record does not tell.
local function empty_since(value)
  local g = offsets.decode_group(value)
  return g and #g.members == 0 and g.timestamp and g.timestamp >= 0 and g.timestamp or nil
end

-- ------------------------------------------------------------------------------------------------------------------------- its partition

-- UTF-16 units of a UTF-8 string, those of its bytes where it is none: what Java hashes.
local function units(s)
  local out, i = {}, 1
  while i <= #s do
    local lead = s:byte(i)
    local size = lead < 0x80 and 1 or lead < 0xe0 and 2 or lead < 0xf0 and 3 or 4
    local code = size == 1 and lead or lead % 2 ^ (7 - size)
    for k = 1, size - 1 do code = code * 64 + (s:byte(i + k) or 0) % 64 end
    if code < 0x10000 then out[#out + 1] = code
    else
      out[#out + 1] = 0xd800 + math.floor((code - 0x10000) / 0x400)
      out[#out + 1] = 0xdc00 + (code - 0x10000) % 0x400
    end
    i = i + size
  end
  return out
end

--- Where a group's records are, of so many partitions: |hashCode(group)| as Kafka has it.
function offsets.partition_of(group, count)
  local hash = 0
  for _, unit in ipairs(units(group)) do hash = (hash * 31 + unit) % 0x100000000 end
  if hash == 0x80000000 then hash = 0 elseif hash > 0x80000000 then hash = 0x100000000 - hash end
  return math.floor(hash % count)
end

-- ---------------------------------------------------------------------------------------------------------------------------- the topic

-- Somebody may have made it as any topic is made: retention would take commits that are in use.
local function compacted(topic)
  local config, message, code = topic:config()
  if not config then return nil, message, code end
  if config["cleanup.policy"] == "compact" then return topic end
  local done
  done, message, code = topic:alter { cleanup_policy = "compact" }
  return done and topic, message, code
end

--- The topic's handle; made when it is missing if `make`. nil alone: it is missing.
local function open_topic(store, make)
  local topic, message, code = core.store.topic(store, offsets.TOPIC)
  if topic and make then return compacted(topic) end
  if topic or code ~= "unknown_topic" then return topic, message, code end
  if not make then return nil end
  local count = core.option(store, "offsets.topic.num.partitions")
  local bytes_a_segment = core.option(store, "offsets.topic.segment.bytes")
  return core.store.topic(store, offsets.TOPIC, { partitions = count, cleanup_policy = "compact", segment_bytes = bytes_a_segment })
end

-- Records of one group, all or none of them. One alone costs no system call.
local function append(topic, group, records)
  local count, message, code = topic:partitions()
  if not count then return nil, message, code end
  local options, first = { partition = offsets.partition_of(group, count) }, records[1]
  local offset
  if #records == 1 then offset, message, code = topic:append(first.key, first.value, options)
  else offset, message, code = topic:append_batch(records, options) end
  if not offset then return nil, message, code end
  return true
end

-- The table of the topic that is kept in `holder` under that name, up to date: opened when there is none, or when its topic was deleted.
-- false: the topic is missing.
local function kept(holder, name, store, options)
  if holder[name] then
    local done, message, code = holder[name]:update()
    if done then return holder[name] end
    if code ~= "unknown_topic" then return nil, message, code end
    holder[name] = nil
  end
  local topic, message, code = open_topic(store)
  if not topic then
    if message then return nil, message, code end
    return false
  end
  holder[name], message, code = state_table.open(store, offsets.TOPIC, options)
  return holder[name], message, code
end

-- ------------------------------------------------------------------------------------------------------------------------ of one group

local Commits = {}
Commits.__index = Commits

--- What a group has committed, kept current; of a store that may be read-only.
function offsets.of_group(store, group)
  local prefix, own = bytes.i16(OFFSET_KEY) .. bytes.text(group), offsets.group_key(group)     -- what its keys begin with, or are
  return setmetatable({
    store = store, group = group, topic_name = offsets.TOPIC, own = own,
    options = { decode = function(value, key)
      if key == own or key:sub(1, #prefix) == prefix then return value end
    end },
  }, Commits)
end

-- The table of the group's records. false: nothing was ever committed.
local function current(self) return kept(self, "state", self.store, self.options) end

--- The commit of a partition, of the topic with that id, nil: none. Or nil, message, code.
function Commits:get(topic, p, topic_id)
  local state, message, code = current(self)
  if not state then
    if message then return nil, message, code end
    return nil
  end
  local value = state:get(offsets.key(self.group, topic, p))
  local commit = value and offsets.decode_value(value)
  if not commit or (topic_id and commit.topic_id and commit.topic_id ~= topic_id) then return nil end
  return commit
end

--- Whether any partition of a topic has a commit. nil, message, code.
function Commits:has(topic, topic_id)
  local all, message, code = self:all()
  if not all then return nil, message, code end
  for _, commit in pairs(all[topic] or {}) do
    if not commit.topic_id or commit.topic_id == topic_id then return true end
  end
  return false
end

--- All of them: { topic = { [partition] = commit } }; empty when there is none.
function Commits:all()
  local state, message, code = current(self)
  if not state then
    if message then return nil, message, code end
    return {}
  end
  local topics = {}
  for key, value in state:pairs() do
    local said, commit = offsets.decode_key(key), offsets.decode_value(value)
    if said and said.topic and commit then
      topics[said.topic] = topics[said.topic] or {}
      topics[said.topic][said.partition] = commit
    end
  end
  return topics
end

--- Writes commits, a list of { topic=, partition=, offset=, metadata=, topic_id= }: all of them or none.
function Commits:put(list)
  local topic, message, code = self.topic, nil, nil
  if not topic or not topic:partitions() then topic, message, code = open_topic(self.store, true) end
  if not topic then return nil, message, code end
  self.topic = topic
  local records, now = {}, core.now(self.store)
  for i, commit in ipairs(list) do
    commit.timestamp = now
    records[i] = { key = offsets.key(self.group, commit.topic, commit.partition), value = offsets.value(commit) }
  end
  if #records == 0 then return true end
  return append(topic, self.group, records)
end

--- Tells the topic that is written to from one that takes its place when somebody has deleted it; nil: there is none.
function Commits:place()
  local topic = self.topic
  return topic and topic:partitions() and core.topic_id(topic) or nil
end

--- Where the group's records are in the topic.
function Commits:partition() return offsets.partition_of(self.group, self.topic:partitions() or 1) end

--- Waits until what was put is durable.
function Commits:flush() return self.topic:flush(self:partition()) end

-- Whether a commit is one of { topic = { [partition] = commit } }, as it was then.
local function is_given(given, said, value)
  local of_topic = given[said.topic]
  local before, now = of_topic and of_topic[said.partition], offsets.decode_value(value)
  return before ~= nil and now ~= nil and before.offset == now.offset and before.topic_id == now.topic_id
end

--- Takes back all commits, and the group's own record; or those of { topic = { [partition] = commit } }, if they have not changed since.
function Commits:forget(given)
  local state, message, code = current(self)
  if not state then
    if message then return nil, message, code end
    return true
  end
  local records = {}
  for key, value in state:pairs() do
    local said = offsets.decode_key(key)
    if said and (not given or said.topic and is_given(given, said, value)) then records[#records + 1] = { key = key } end
  end
  if #records == 0 then return true end
  return append(state.topic, self.group, records)
end

--- Notes that the group has no members, from `now` on, or that it has. Under the group's lock.
function Commits:note_empty(is_empty, now)
  local state, message, code = current(self)
  if not state then
    if message then return nil, message, code end
    return true                             -- without commits there is nothing that could expire
  end
  local value = state:get(self.own)
  if is_empty and not value and state:count() == 0 then return true end
  if is_empty == (value ~= nil and empty_since(value) ~= nil) then return true end
  return append(state.topic, self.group, { { key = self.own, value = is_empty and empty_group(now or core.now(self.store)) or nil } })
end

--- Since when it has no members; nil: it has, or it is not known. nil, message, code.
function Commits:empty_since()
  local state, message, code = current(self)
  if not state then
    if message then return nil, message, code end
    return nil
  end
  local value = state:get(self.own)
  return value and empty_since(value) or nil
end

-- ---------------------------------------------------------------------------------------------------------------------- of all groups

--- { group = { topics = { topic = { [partition] = commit } }, empty_since = ms or nil } }; nil, message, code.
function offsets.all(store)
  local state, message, code = kept(core.life(store), "commits", store)      -- it goes with the store
  if not state then
    if message then return nil, message, code end
    return {}
  end
  local groups = {}
  for key, value in state:pairs() do
    local said = offsets.decode_key(key)
    local group = said and (groups[said.group] or { topics = {} })
    if said then groups[said.group] = group end
    if said and said.topic then
      local of_topic = group.topics[said.topic] or {}
      group.topics[said.topic], of_topic[said.partition] = of_topic, offsets.decode_value(value)
    elseif said then group.empty_since = empty_since(value) end
  end
  return groups
end

return offsets

-- Consumer groups: who the members are, and which partitions each has.
--
-- The members write it down together, in the group's file (csrc/store/roster.h): under its lock whoever comes, goes, or finds another one
-- dead, divides the partitions anew. There is no coordinator, and nothing is timed: a member lives as long as its process holds its slot.
--
-- A partition changes hands at once. Each time it does it gets a number; a commit counts only from the one who has the partition by the
-- number that it has now, else it is refused (`fenced`): the new owner has begun where the last commit was. So what was delivered and not
-- committed is delivered again, and never is a newer commit overwritten by an older member's.
local core = require "sediment.core"

local group = { MOST = 1024 }              -- members

-- --------------------------------------------------------------------------------------------------------------------------- the text

-- Lines: "group LENGTH NAME", then "member SLOT ID TOPIC..." in the order in which they came, and "topic NAME SLOT:NUMBER ..." with an
-- entry for each partition from 0 on; the slot is "-" where nobody wants it. Names of topics have no blanks.

local function encode(name, members, topics)
  local lines = { ("group %d %s"):format(#name, name) }
  for _, m in ipairs(members) do lines[#lines + 1] = ("member %d %s %s"):format(m.slot, m.id, table.concat(m.topics, " ")) end
  local names = {}
  for topic in pairs(topics) do names[#names + 1] = topic end
  table.sort(names)
  for _, topic in ipairs(names) do
    local owners = {}
    for p = 0, #topics[topic] do
      local owner = topics[topic][p]
      if owner then owners[#owners + 1] = ("%s:%d"):format(owner.slot or "-", owner.number) end
    end
    lines[#lines + 1] = "topic " .. topic .. " " .. table.concat(owners, " ")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function slot_of(word)
  local slot = tonumber(word)
  return slot and slot % 1 == 0 and slot >= 0 and slot < group.MOST and slot or nil
end

local function decode_member(words)
  local slot = slot_of(words[2])
  return slot and words[3] and { slot = slot, id = words[3], topics = { (table.unpack or unpack)(words, 4) } }
end

local function decode_owners(words)
  local owners = {}
  for i = 3, #words do
    local slot, number = words[i]:match "^(%S+):(%d+)$"
    number = tonumber(number) or 0
    owners[i - 3] = { slot = slot_of(slot), number = number < 2 ^ 53 and number or 0 }
  end
  return owners
end

-- members, topics { name = { [p] = { slot=, number= } } }; both empty for no text, or that of a group whose name has the same hash. What
-- makes no sense is left out.
local function decode(name, text)
  local members, topics = {}, {}
  local start = ("group %d %s\n"):format(#name, name)
  if text:sub(1, #start) ~= start then return members, topics end
  for line in text:sub(#start + 1):gmatch "[^\n]+" do
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    if words[1] == "member" then members[#members + 1] = decode_member(words)
    elseif words[1] == "topic" and words[2] then topics[words[2]] = decode_owners(words) end
  end
  return members, topics
end

-- ------------------------------------------------------------------------------------------------------------------------- assignment

-- How many partitions each of the members gets: as even as can be, and one more for those that have the most, else for the first.
local function quotas(slots, count, held)
  local order, quota = {}, {}
  for i, slot in ipairs(slots) do order[i] = { slot = slot, at = i } end
  table.sort(order, function(a, b)
    if held[a.slot] ~= held[b.slot] then return held[a.slot] > held[b.slot] end
    return a.at < b.at
  end)
  for i, o in ipairs(order) do quota[o.slot] = math.floor(count / #slots) + (i <= count % #slots and 1 or 0) end
  return quota
end

--- Divides a topic's partitions among the slots, given in order. Each keeps what it has (`before`: [p] = { slot=, number= }) up to its
--- share; what is left goes in ranges to those that lack some. From nothing that is Kafka's range assignment. `first`: the number of one
--- that has none yet, default 0.
function group.assign(slots, count, before, first)
  local held, after, lacking = {}, {}, {}
  for _, slot in ipairs(slots) do held[slot] = 0 end
  for p = 0, count - 1 do
    local owner = before[p] and before[p].slot
    if held[owner] then held[owner] = held[owner] + 1 end
  end
  local quota = quotas(slots, count, held)
  for p = 0, count - 1 do
    local owner = before[p] and before[p].slot
    if quota[owner] and quota[owner] > 0 then
      quota[owner] = quota[owner] - 1
      after[p] = before[p]
    end
  end
  for _, slot in ipairs(slots) do
    for _ = 1, quota[slot] do lacking[#lacking + 1] = slot end
  end
  local next_one = 1
  for p = 0, count - 1 do
    if not after[p] then
      after[p] = { slot = lacking[next_one], number = before[p] and before[p].number + 1 or first or 0 }
      next_one = next_one + 1
    end
  end
  return after
end

local function wants(member, topic)
  for _, name in ipairs(member.topics) do
    if name == topic then return true end
  end
  return false
end

-- A number that nobody has had, whatever has become of the file in between.
local function fresh_number() return tonumber(core.random_id():sub(1, 12), 16) end

-- The division of all topics that a member wants; `count_of(topic)`: its partitions.
local function divide(members, before, count_of)
  local after, wanted = {}, {}
  for _, m in ipairs(members) do
    for _, topic in ipairs(m.topics) do wanted[topic] = true end
  end
  for topic in pairs(wanted) do
    local slots = {}
    for _, m in ipairs(members) do
      if wants(m, topic) then slots[#slots + 1] = m.slot end
    end
    after[topic] = group.assign(slots, count_of(topic), before[topic] or {}, fresh_number())
  end
  return after
end

-- ----------------------------------------------------------------------------------------------------------------------------- members

local Member = {}
Member.__index = Member

local function under_lock(self, f)
  local roster = self.roster
  local done, message, code = roster:lock()
  if not done then return nil, message, code end
  local ok, a, b, c = pcall(f, self, roster)
  if not core.life(self.store).closed then roster:unlock() end
  if not ok then error(a, 0) end
  return a, b, c
end

-- Those that live; this one is among them or is not.
local function living(self, roster, members)
  local out = {}
  for _, m in ipairs(members) do
    local alive, message, code = m.id == self.id, nil, nil
    if not alive and m.slot ~= self.slot then alive, message, code = roster:is_alive(m.slot) end
    if alive == nil then return nil, message, code end
    if alive then out[#out + 1] = m end
  end
  return out
end

local function find(members, id)
  for i, m in ipairs(members) do
    if m.id == id then return i, m end
  end
end

-- Takes a slot that nobody has.
local function join(self, roster, members)
  for slot = 0, group.MOST - 1 do
    local mine, message, code = roster:claim(slot)
    if mine == nil then return nil, message, code end
    if mine then
      self.slot = slot
      members[#members + 1] = { slot = slot, id = self.id, topics = self.topics }
      return true
    end
  end
  return nil, ("the consumer group '%s' has %d members, and has room for no more"):format(self.name, group.MOST), "busy"
end

-- What this one has of a division: { topic = { [p] = number } }.
local function own(self, topics)
  local out = {}
  for topic, owners in pairs(topics) do
    for p, owner in pairs(owners) do
      if owner.slot == self.slot then
        out[topic] = out[topic] or {}
        out[topic][p] = owner.number
      end
    end
  end
  return out
end

local function write_if_changed(self, roster, text, members, topics)
  local changed, token, message, code = encode(self.name, members, topics), self.token, nil, nil
  if changed ~= text then token, message, code = roster:write(changed) end
  if not token then return nil, message, code end
  self.token, self.members, self.all = token, members, topics
  return true
end

local function take_part(self, roster)
  local text, token, why = roster:read()
  if not text then return nil, token, why end
  self.token = token
  local members, before = decode(self.name, text)
  if not find(members, self.id) then self.slot = nil end         -- of another file, which is gone
  local alive, message, code = living(self, roster, members)
  if not alive then return nil, message, code end
  local counts = {}
  for _, m in ipairs(alive) do
    for _, topic in ipairs(m.topics) do counts[topic] = counts[topic] or self.count_of(topic) end
  end
  if not find(alive, self.id) then
    local done
    done, message, code = join(self, roster, alive)
    if done then done, message, code = self.hooks.joined() end
    if not done then return nil, message, code end
  end
  for _, topic in ipairs(self.topics) do counts[topic] = counts[topic] or self.count_of(topic) end
  local topics = divide(alive, before, function(topic) return counts[topic] end)
  local done
  done, message, code = write_if_changed(self, roster, text, alive, topics)
  if not done then return nil, message, code end
  self.counts, self.assignment = counts, own(self, topics)
  return true
end

-- Whether all is as this one knows it: the text, the others' lives, how many partitions there are.
local function is_current(self)
  local token, message, code = self.roster:token()
  if not token then return nil, message, code end
  if token ~= self.token then return false end
  for _, m in ipairs(self.members) do
    local alive = true
    if m.id ~= self.id then alive, message, code = self.roster:is_alive(m.slot) end
    if not alive then return alive, message, code end
  end
  for topic, count in pairs(self.counts) do
    if self.count_of(topic) ~= count then return false end
  end
  return true
end

--- Joins a group as one more member that wants these topics. `hooks`: count_of(topic) tells how many partitions a topic has, 0 when it is
--- missing; joined() and emptied() are called under the group's lock when this one has come, and when it goes and nobody is left, and
--- answer true, or nil, message, code.
function group.join(store, name, topics, hooks)
  local roster, message, code = core.roster(store, name)
  if not roster then return nil, message, code end
  local self = setmetatable({
    store = store, roster = roster, name = name, topics = topics, hooks = hooks, count_of = hooks.count_of, id = core.random_id(),
    members = {}, counts = {}, assignment = {},
  }, Member)
  local done
  done, message, code = under_lock(self, take_part)
  if done then return self end
  roster:close()
  return nil, message, code
end

--- Looks whether anything has changed, and has `assignment`, { topic = { [p] = number } }, tell what is. True if it looked anew, false if
--- nothing has.
function Member:refresh()
  local current, message, code = is_current(self)
  if current == nil then return nil, message, code end
  if current then return false end
  return under_lock(self, take_part)
end

-- Those of the partitions that are not this one's by their numbers, as text; nil: all are.
local function foreign(assignment, list)
  local out = {}
  for _, c in ipairs(list) do
    local owned = c.number and assignment[c.topic] and assignment[c.topic][c.partition] == c.number
    if not owned then out[#out + 1] = c.topic .. "-" .. c.partition end
  end
  return #out > 0 and table.concat(out, ", ") or nil
end

-- What is this one's as of now; under the lock.
local function owned_now(self, roster)
  local token, message, code = roster:token()
  if not token then return nil, message, code end
  if token == self.token then return self.assignment end
  local text
  text, message, code = roster:read()
  if not text then return nil, message, code end
  local members, topics = decode(self.name, text)
  return find(members, self.id) and own(self, topics) or {}
end

--- Calls write() while nothing changes hands, if the partitions of the list, of { topic=, partition=, number= }, are this one's; else nil,
--- message, `fenced`.
function Member:while_owned(list, write)
  return under_lock(self, function(_, roster)
    local assignment, message, code = owned_now(self, roster)
    if not assignment then return nil, message, code end
    local lost = foreign(assignment, list)
    if not lost then return write() end
    message = "group '%s': %s went to another member meanwhile; poll again, and go on with what it gives"
    return nil, message:format(self.name, lost), "fenced"
  end)
end

local function count_owners(owners)
  local n = 0
  while owners and owners[n] do n = n + 1 end
  return n
end

local function say_good_bye(self, roster)
  local text, token, code = roster:read()
  if not text then return nil, token, code end
  local members, before = decode(self.name, text)
  local at = find(members, self.id)
  if at then table.remove(members, at) end
  local alive, message
  alive, message, code = living(self, roster, members)
  if not alive then return nil, message, code end
  if #alive == 0 then
    local done
    done, message, code = self.hooks.emptied()
    if done then return roster:remove() end
    return nil, message, code
  end
  local topics = divide(alive, before, function(topic) return self.counts[topic] or count_owners(before[topic]) end)
  return write_if_changed(self, roster, text, alive, topics)
end

--- Leaves.
function Member:leave()
  if self.left then return true end
  self.left = true
  local done, message, code = under_lock(self, say_good_bye)
  self.roster:close()
  if not done then return nil, message, code end
  return true
end

-- How many live, under the lock: by what is written, or, where that is nothing, by all slots that somebody may hold.
local function count_living(self, roster)
  local text, token, code = roster:read()
  if not text then return nil, token, code end
  local members = decode(self.name, text)
  for slot = 0, #members == 0 and group.MOST - 1 or -1 do members[#members + 1] = { slot = slot, id = "" } end
  local list, message
  list, message, code = living(self, roster, members)
  if not list then return nil, message, code end
  return #list
end

--- Calls f(members), their number, while nobody can join, leave or commit; what it answers. nil, message, code.
function group.alone(store, name, f)
  local roster, message, code = core.roster(store, name)
  if not roster then return nil, message, code end
  local done
  done, message, code = under_lock({ store = store, roster = roster, name = name }, function(self)
    local count, why, what = count_living(self, roster)
    if not count then return nil, why, what end
    local a, b, c = f(count)
    if count == 0 then roster:remove() end
    return a, b, c
  end)
  roster:close()
  return done, message, code
end

--- How many members of a group live. nil, message, code.
function group.members(store, name) return group.alone(store, name, function(count) return count end) end

return group

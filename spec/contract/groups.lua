-- Groups: who has which partition, what a member may commit, the death of a member.
local contract = require "contract.store"
local support = require "support"
local disk = require "disk"

local fails, drain = contract.fails, contract.drain

local function filled(n)
  local topic, store, name = contract.topic { partitions = 4 }
  for i = 1, n do topic:append("k", tostring(i), { partition = i % 4 }) end
  return topic, store, name, contract.fresh "g"
end

local function count_of(consumer, name) return #(assert(consumer:assignment())[name] or {}) end

-- Polls until the members have so many partitions, in their order.
local function await_shares(name, members, shares)
  contract.await(function()
    local now = {}
    for i, member in ipairs(members) do
      assert(member:poll { max = 0 })
      now[i] = count_of(member, name)
    end
    return table.concat(now, " ") == shares
  end)
end

it("are told of with their members and commits, and deleted when nobody is in them", function()
  local _, store, name, group = filled(8)
  fails("not_found", store:group(group))
  fails("not_found", store:delete_group(group))
  local member = assert(store:consumer { topics = { name }, group = group })
  drain(member)
  assert.is_true(member:commit { [name] = { [0] = { offset = 1, metadata = "m" } } })
  local told = assert(store:group(group))
  assert.equal(1, told.members)
  local timestamp = told.offsets[name][0].timestamp
  assert.equal(contract.has "commits' times", timestamp ~= nil)
  assert.same({ [name] = { [0] = { offset = 1, metadata = "m", timestamp = timestamp } } }, told.offsets)
  local listed = {}
  for _, each in ipairs(assert(store:groups())) do listed[each] = true end
  assert.is_true(listed[group])
  fails("busy", store:delete_group(group))
  member:close()
  assert.equal(0, store:group(group).members)
  assert.is_true(store:delete_group(group))
  fails("not_found", store:group(group))
end)

it("divide the partitions among members of one process, and refuse commits for what is another's", function()
  local _, store, name, group = filled(40)
  local a = assert(store:consumer { topics = { name }, group = group })
  assert.equal(4, count_of(a, name))
  drain(a)
  local b = assert(store:consumer { topics = { name }, group = group })
  assert.same({ 2, 2 }, { count_of(a, name), count_of(b, name) })
  local yours = b:assignment()[name][1]
  fails("fenced", a:commit { [name] = { [yours] = 1 } })
  fails("fenced", a:position(name, yours))
  fails("fenced", a:seek(name, yours, 0))
  local seen = {}
  for _, member in ipairs { a, b } do
    for _, r in ipairs(drain(member)) do seen[r.partition .. ":" .. r.offset] = true end
    assert.is_true(member:commit())
  end
  for offset = 0, 9 do assert.is_true(seen[yours .. ":" .. offset]) end
  assert.equal(10, (a:committed(name, yours)))
  a:close()
  await_shares(name, { b }, "4")
  assert.equal(0, b:lag().total)
  b:close()
end)

-- Writes each record that it is given down, in the file `more`, then commits it.
local MEMBER = [[
local topic_name, group, ledger = name, more:match "^(%S+) (.*)$"
local consumer = assert(store:consumer { topics = { topic_name }, group = group })
local out = assert(io.open(ledger, "a"))
print "in"
while true do
  for _, r in ipairs(assert(consumer:poll { timeout_ms = 100 })) do out:write(r.partition, ":", ("%d"):format(r.offset), "\n") end
  out:flush()
  local done, message, code = consumer:commit()
  assert(done or code == "fenced", message)
end]]

it("are shared by processes, and what a member that is killed had goes to others", function()
  local topic, store, name, group = filled(40)
  local ledger = support.foreign() .. "ledger"
  local pipe, pid = contract.start(MEMBER, name, group .. " " .. ledger)
  assert.equal("in", pipe:read "*l")
  local consumer = assert(store:consumer { topics = { name }, group = group })
  local seen = {}
  local function gather()
    for _, r in ipairs(assert(consumer:poll { timeout_ms = 100 })) do seen[r.partition .. ":" .. r.offset] = true end
    local done, message, code = consumer:commit()
    assert(done or code == "fenced", message)
  end
  local function has_seen(n)
    local all, count = {}, 0
    for place in pairs(seen) do all[place] = true end
    for line in disk.exists(ledger) and io.lines(ledger) or function() end do all[line] = true end
    for _ in pairs(all) do count = count + 1 end
    return count == n
  end
  contract.await(function()
    gather()
    return count_of(consumer, name) == 2 and has_seen(40)
  end)
  assert.equal(0, disk.run("kill -9 " .. pid))
  for i = 1, 8 do topic:append("k", "late", { partition = i % 4 }) end
  contract.await(function()
    gather()
    return has_seen(48)
  end)
  assert.equal(4, count_of(consumer, name))
  assert.equal(0, consumer:lag().total)
  consumer:close()
end)

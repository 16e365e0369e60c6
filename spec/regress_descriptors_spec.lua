-- A process may have more partitions than descriptors: the files of those that it has not used for longest are closed, and opened again
-- when they are needed.
local support = require "support"
local disk = require "disk"

local MANY = [[
local sediment = require "sediment"
local path, readonly = arg[1], arg[2] == "readonly"
local compacts = arg[2] == "compact"
local PARTITIONS, ROUNDS = 60, 6
local store = assert(sediment.open(path, { background = false, readonly = readonly, clock = function() return 1700000000000 end }))
local topic = assert(store:topic("t", not readonly and { partitions = PARTITIONS } or nil))
for round = 1, (readonly or compacts) and 0 or ROUNDS do
  for p = 0, PARTITIONS - 1 do
    assert(topic:append("k", "v" .. round, { partition = p }))
    if round % 2 == 0 then assert(topic:roll(p)) end
    if p % 7 == 0 then assert(topic:flush(p)) end
  end
end
for p = 0, PARTITIONS - 1 do
  local n, seen = 0
  for _, _, value in topic:records { partition = p } do n, seen = n + 1, value end
  assert(n == ROUNDS and seen == "v" .. ROUNDS, "partition " .. p .. " has " .. n)
  assert(topic:offset_for_time(0, p) == 0)
end
assert(readonly or store:maintain().failed == 0)
assert(not compacts or topic:alter { cleanup_policy = "compact" } and topic:compact { force = true }.partitions == PARTITIONS)
assert(store:close())
print "done"
]]

describe("descriptors", function()
  after_each(support.cleanup)

  it("suffice for more partitions than there are", function()
    local path = support.path()
    local command = disk.script(path .. ".lua", MANY)
    local function run(how)
      assert.equal(0, disk.run(("ulimit -n 64; %s '%s' %s > '%s.out' 2>&1"):format(command, path, how, path)), disk.read(path .. ".out"))
      assert.equal("done\n", disk.read(path .. ".out"))
    end
    run ""
    run "readonly"
    run "compact"
  end)
end)

-- A log of far more segments than the process may have files open.
local support = require "support"
local disk = require "disk"

local WORK = [[
local sediment = require "sediment"
local path, count = arg[1], 1200
local function open() return assert(sediment.open(path, { background = false, clock = function() return 1700000000000 end })) end
local store = open()
local config = { cleanup_policy = "compact", segment_bytes = 120, min_cleanable_dirty_ratio = 0, delete_retention_ms = 0 }
local topic = assert(store:topic("t", config))
local function number_of_records()
  local n = 0
  for _ in topic:records() do n = n + 1 end
  return n
end
for i = 1, count do assert(topic:append("k" .. i % 100, "v" .. i .. ("x"):rep(30))) end
assert(#topic:segments() == count)
assert(number_of_records() == count)
assert(topic:flush() == count)
assert(topic:stats().partitions[0].segments == count)
assert(topic:offset_for_time(1) == 0 and topic:offset_for_time(1700000000001) == nil)
assert(store:table("t"):count() == 100)
assert(store:close())

store = open()
topic = assert(store:topic "t")
assert(number_of_records() == count)
assert(topic:append("last", "v") == count)
local report = assert(topic:compact { force = true })
assert(report.records_written <= 101, report.records_written)
assert(number_of_records() <= 102)
assert(store:table("t"):count() == 101)
for i = 1, count do assert(topic:append("k" .. i % 100, "w" .. i .. ("x"):rep(30))) end
assert(topic:alter { cleanup_policy = "delete", retention_ms = 0 })
assert(topic:retain({ now = 1700000000000 + 10 ^ 9 }).segments >= count)
assert(store:maintain({ now = 1700000000000 + 10 ^ 9 }).failed == 0)
assert(topic:append("after", "v") == 2 * count + 1)
assert(store:close())

local bare = assert(sediment.open_partition(path .. "/t-0"))
assert(bare:latest() == 2 * count + 2)
print "all done"
]]

describe("1,200 segments with 256 files to open", function()
  after_each(support.cleanup)

  it("are written, read, cleaned, flushed, retained and closed", function()
    local path = support.path()
    local command = disk.script(path .. ".lua", WORK)
    disk.run(("ulimit -n 256; %s '%s' > '%s.out' 2>&1"):format(command, path, path))
    assert.equal("all done\n", disk.read(path .. ".out"))
  end)
end)

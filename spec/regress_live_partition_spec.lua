-- open_partition on a store that is open, was open when its process was killed, or was closed: each time it sees what is there.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("open_partition", function()
  after_each(support.cleanup)

  local function look(path, expected, count)
    local partition = assert(sediment.open_partition(path .. "/t-0"))
    assert.equal(count, partition:latest())
    assert.equal(expected, support.words(partition:records()))
    return partition
  end

  it("of a store that is open sees records that were just appended, and those that come", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { segment_bytes = 200 })
    topic:append("a", "1")
    local partition = look(path, "a=1", 1)
    topic:append("b", "2")
    topic:append_batch { { key = "c", value = "3" } }
    topic:append("d", "4")
    local function follow(words, count)
      assert.equal(count, partition:latest())
      assert.equal(words, support.words(partition:records()))
    end
    follow("a=1 b=2 c=3 d=4", 4)
    topic:roll()
    topic:append("e", "5")
    follow("a=1 b=2 c=3 d=4 e=5", 5)
    store:close()
    follow("a=1 b=2 c=3 d=4 e=5", 5)
    store = support.open(path)
    topic = store:topic "t"
    topic:append("f", "6")
    follow("a=1 b=2 c=3 d=4 e=5 f=6", 6)
    partition:close()
  end)

  it("of a store whose process was killed sees what it acknowledged", function()
    local path = support.path()
    local command = disk.script(path .. ".lua", [[
local store = assert(require "sediment".open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic = store:topic("t", {})
for i = 1, 5 do assert(topic:append("k", tostring(i))) end
os.execute "kill -9 $PPID"
]])
    disk.run(command .. " '" .. path .. "' 2> /dev/null")
    assert.equal(0, #disk.read(path .. "/t-0/" .. disk.log(0)))          -- all of it is staged
    local before = disk.read(path .. "/t-0/sediment.control")
    look(path, "k=1 k=2 k=3 k=4 k=5", 5)
    assert.equal(before, disk.read(path .. "/t-0/sediment.control"))
    assert.equal(5, support.open(path):topic("t"):latest())
    look(path, "k=1 k=2 k=3 k=4 k=5", 5)
  end)

  it("of a closed store goes by the files, which somebody else may have continued", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", {})
    topic:append("k", "v")
    store:close()
    look(path, "k=v", 1)
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    assert.equal(1, #disk.batches(bytes))
    disk.write(file, bytes .. "\0\0\0\0\0\0\0\1" .. bytes:sub(9))
    local partition = look(path, "k=v k=v", 2)
    disk.write(file, disk.read(file) .. "\0\0\0\0\0\0\0\2" .. bytes:sub(9))
    assert.equal(3, partition:latest())
    assert.equal(3, #support.collect(partition:records()))
    topic = support.open(path):topic "t"
    assert.equal(3, topic:latest())
    assert.equal(3, topic:append("k", "w"))
    assert.equal("k=v k=v k=v k=w", support.words(topic:records()))
  end)
end)

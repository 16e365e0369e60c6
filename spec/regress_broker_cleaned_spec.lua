-- A broker that served a partition may have cleaned it. Its offsets have gaps then, in segments of which sediment.state says that
-- nobody cleaned them: that was taken for damage. Kafka leaves a .snapshot with the log's end at each roll and close.
local support = require "support"
local disk = require "disk"

describe("a partition that a broker has cleaned", function()
  after_each(support.cleanup)

  -- Offsets 0 to 3 in batches of one, 0 and 1 in the first segment; closed; the batch of offset 0 is taken out.
  local function cleaned_by_another()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact" })
    topic:append_batch { { key = "a", value = "0" } }
    topic:append_batch { { key = "a", value = "1" } }
    topic:roll()
    topic:append_batch { { key = "b", value = "2" } }
    topic:append_batch { { key = "b", value = "3" } }
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    os.remove(file)                                           -- another file, as a swap leaves
    disk.write(file, bytes:sub(disk.batches(bytes)[2].position + 1))
    os.remove((file:gsub("log$", "index")))
    return path
  end

  it("is read and goes on", function()
    local path = cleaned_by_another()
    disk.write(path .. "/t-0/00000000000000000004.snapshot", "")
    local topic = support.open(path):topic "t"
    assert.equal("a=1 b=2 b=3", support.words(topic:records()))
    assert.equal(0, topic:stats().partitions[0].corrupt_batches)
    assert.equal(4, topic:append("c", "4"))
    topic:roll()
    assert.equal(1, topic:compact({ force = true }).partitions)
    assert.equal("a=1 b=3 c=4", support.words(topic:records()))
  end)

  it("is damaged when no broker was there", function()
    support.damaged()
    local topic = support.open(cleaned_by_another()):topic "t"
    assert.equal("corrupt", support.raised(function() support.words(topic:records()) end).code)
  end)

  it("says nothing of what came after the broker", function()
    support.damaged()
    local path = cleaned_by_another()
    disk.write(path .. "/t-0/00000000000000000002.snapshot", "")
    local file = path .. "/t-0/" .. disk.log(2)
    local bytes = disk.read(file)
    disk.write(file, bytes:sub(disk.batches(bytes)[2].position + 1))
    local topic = support.open(path):topic "t"
    assert.equal("corrupt", support.raised(function() support.words(topic:records()) end).code)
  end)
end)

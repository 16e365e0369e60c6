-- sediment copy to a cluster, from one and within one, against a real broker; spec/kafka/cluster starts one and runs this.
local sediment = require "sediment"
local core = require "sediment.core"
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local contents = support.contents

local PATH = "kafka://" .. assert(os.getenv "SEDIMENT_CLUSTER", "run spec/kafka/cluster")
local BROKER, DIR = os.getenv "SEDIMENT_BROKER", os.getenv "SEDIMENT_BROKER_DIR"
local T = 1700000000000

local made = 0

-- Each test has a topic of its own.
local function fresh()
  made = made + 1
  return ("copy-%s-%.0f-%d"):format((os.getenv "SEDIMENT_LUA" or "lua"):match "[^/]*$":gsub("[^%w]", ""), core.monotonic_ms(), made)
end

describe("sediment copy and a cluster", function()
  local directory, name, stores

  before_each(function()
    support.now = os.time() * 1000
    directory, name, stores = support.foreign():gsub("/$", ""), fresh(), {}
  end)
  after_each(function()
    for _, store in ipairs(stores) do store:close() end
    support.cleanup()
  end)

  local function cluster()
    local store = assert(sediment.open(PATH, { timeout_ms = 20000 }))
    stores[#stores + 1] = store
    return store
  end

  local function folder(which) return support.open(directory .. "/" .. which) end

  local function copy(from, to, ...) return scripts.sediment(directory, "copy", from, name, to, ...) end

  local function copies(from, to, ...)
    local said, complaint, status = copy(from, to, ...)
    assert.equal(0, status, complaint)
    return said, complaint
  end

  local function fails(expected, from, to, ...)
    local said, complaint, status = copy(from, to, ...)
    assert.equal(1, status, said)
    assert.matches(expected, complaint, 1, true)
  end

  local function record(i)
    return {
      key = i % 4 == 0 and "" or "key" .. i % 50, value = i % 5 ~= 0 and ("value %d "):format(i):rep(i % 7) or nil,
      timestamp = i % 9 == 0 and -1 or T + i * 1000, headers = i % 3 == 0 and { { "h", "x" }, { "none" }, { "empty", "" } } or nil,
    }
  end

  local function fill(store, count, config, partitions)
    local topic = assert(store:topic(name, config))
    for p = 0, partitions - 1 do
      local batch = {}
      for i = 1, count do
        batch[#batch + 1] = record(i + p)
        if #batch == 500 or i == count then
          assert(topic:append_batch(batch, { partition = p }))
          batch = {}
        end
      end
    end
    return topic
  end

  local function same_contents(from, to)
    for p = 0, from:partitions() - 1 do assert.same(contents(from, p), contents(to, p)) end
  end

  local CONFIG = { partitions = 3, cleanup_policy = "compact", delete_retention_ms = 5000, segment_bytes = 2 ^ 21 }

  it("copies a store's topic there, and back, and on to another topic", function()
    local topic = fill(folder "a", 700, CONFIG, 3)
    local said = copies("a", PATH)
    local there = cluster():topic(name)
    same_contents(topic, there)
    local described = there:describe()
    assert.same({ 3, "compact", 5000, 2 ^ 21, "topic" }, { there:partitions(), described["cleanup.policy"].value,
      described["delete.retention.ms"].value, described["segment.bytes"].value, described["segment.bytes"].source })
    assert.equal(said, (copies(PATH, "b")))
    same_contents(topic, folder "b":topic(name))
    assert.equal(2 ^ 21, folder "b":topic(name):config()["segment.bytes"])
    assert.equal(said, (copies(PATH, PATH, name .. "-2")))
    same_contents(topic, cluster():topic(name .. "-2"))
    topic:append("k", "more", { partition = 2, timestamp = T })
    copies("a", PATH)
    copies(PATH, "b")
    same_contents(topic, folder "b":topic(name))
  end)

  it("copies what a transaction has committed, and knows offsets across its markers", function()
    local store = cluster()
    assert(store:topic(name, {}))
    local run = ("java -cp '%s' '%s/Transactions.java' %s %s commit:5 abort:4 commit:3"):format(
      os.getenv "SEDIMENT_CLASSPATH", scripts.root .. "/spec/kafka", os.getenv "SEDIMENT_CLUSTER", name)
    assert.equal(0, disk.run(run .. " > /dev/null 2>&1"))
    local topic = store:topic(name)
    local offsets = {}
    for offset in topic:records() do offsets[#offsets + 1] = offset end
    assert.is_true(#offsets < topic:latest())
    local groups = {}
    for c = 0, topic:latest() do
      local consumer = assert(store:consumer { group = name .. "-" .. c, topics = { name } })
      assert(consumer:commit { [name] = { [0] = c } })
      consumer:close()
      groups[#groups + 1], groups[#groups + 2] = "--group", name .. "-" .. c
    end
    copies(PATH, "b", (table.unpack or unpack)(groups))
    local copied = folder "b"
    same_contents(topic, copied:topic(name))
    for c = 0, topic:latest() do
      local expected = #offsets
      for i = #offsets, 1, -1 do if offsets[i] >= c then expected = i - 1 end end
      assert.equal(expected, copied:group(name .. "-" .. c).offsets[name][0].offset)
    end
  end)

  it("carries a group's commits there", function()
    local store = folder "a"
    fill(store, 50, { partitions = 2 }, 2)
    local consumer = store:consumer { group = name, topics = { name } }
    consumer:commit { [name] = { [0] = { offset = 17, metadata = "here" }, [1] = 50 } }
    fails("has 1 member in a", "a", PATH, "--group", name)
    consumer:close()
    copies("a", PATH, "--group", name)
    local group = cluster():group(name)
    assert.same({ { offset = 17, metadata = "here" }, 50, 0 }, { group.offsets[name][0], group.offsets[name][1].offset, group.members })
    consumer = cluster():consumer { group = name, topics = { name } }
    fails("has 1 member in kafka://", "a", PATH, "--group", name)
    consumer:close()
  end)

  it("refuses records that are none of its own, and fewer partitions", function()
    fill(folder "a", 20, { partitions = 2 }, 2)
    cluster():topic(name, { partitions = 2 }):append("k", "somebody's", { partition = 1 })
    fails("partition 1 of '" .. name .. "' in the target has records that are no copy's", "a", PATH)
    cluster():topic(name .. "-1", {})
    fails("has 1 partitions, the source has 2", "a", PATH, name .. "-1")
    copies("a", PATH, name .. "-2")
    cluster():topic(name .. "-2"):append("k", "somebody's", { partition = 0 })
    fails("somebody else writes to it", "a", PATH, name .. "-2")
  end)

  it("names the record that librdkafka cannot send, and one that the broker does not take", function()
    local topic = folder "a":topic(name, { retention_ms = -1 })
    for i = 1, 30 do topic:append("k", "v", { timestamp = i == 12 and 0 or T }) end
    fails(name .. "-0@11 cannot be copied: a timestamp of 0", "a", PATH)
    assert.equal(11, cluster():topic(name):latest())
    topic = folder "a":topic(name .. "-big", {})
    for i = 1, 30 do topic:append("k", i == 20 and ("x"):rep(5000) or "v", { timestamp = T }) end
    cluster():topic(name .. "-big", { max_message_bytes = 4000 })
    name = name .. "-big"
    fails(name .. "-0@19 cannot be copied: ", "a", PATH)
    assert.equal(19, cluster():topic(name):latest())
    cluster():topic(name):alter { max_message_bytes = 100000 }
    copies("a", PATH)
    same_contents(topic, cluster():topic(name))
  end)

  it("leaves out times where the cluster makes its own, and a config that it refuses", function()
    fill(folder "a", 20, { segment_bytes = 5000 }, 1)
    cluster():topic(name, { message_timestamp_type = "LogAppendTime" })
    local said, complaint = copies("a", PATH)
    assert.matches("times are not compared", complaint)
    assert.matches("the same\n$", said)
    complaint = select(2, copies("a", PATH, name .. "-2"))
    assert.matches("the target cannot have the source's segment.bytes 5000; it is left out", complaint, 1, true)
  end)

  it("tells what compaction there has left", function()
    local topic = fill(folder "a", 400, { cleanup_policy = "compact", segment_bytes = 2 ^ 20 }, 1)
    cluster():topic(name, { cleanup_policy = "compact", segment_ms = 1000, min_cleanable_dirty_ratio = 0.01, max_compaction_lag_ms = 1 })
    copies("a", PATH)
    local there = cluster():topic(name)
    topic:append("last", "v", { timestamp = T + 2 * 400 * 1000 })            -- begins another segment, so that the first can be cleaned
    copies("a", PATH)
    for _ = 1, 300 do
      if #contents(there, 0) < 300 then break end
      disk.run "sleep 0.1"
    end
    assert.matches("the same; %d+ records cleaned away there\n$", (copies("a", PATH)))
  end)

  local function kill_loop(from, to, topic, count, target)
    local within, previous = 0, 0
    for _ = 1, 4 do
      local pipe, pid = scripts.start_sediment(directory, "copy", from, name, to, "--no-verify")
      -- Until there is more than before, so that it dies while it copies.
      for _ = 1, 400 do
        disk.run "sleep 0.02"
        local copied = target():topic(name)
        if copied and copied:latest(0) > previous then break end
      end
      disk.run(("sleep %.3f; kill -9 %d 2> /dev/null"):format(math.random() * 0.05, pid))
      pipe:read "*a"
      pipe:close()
      local now = target():topic(name):latest(0)
      if now > previous and now < count then within = within + 1 end
      previous = now
      if now >= count then break end
    end
    assert.is_true(within >= 1, "no run was killed while it copied")
    copies(from, to)
    same_contents(topic, target():topic(name))
  end

  it("leaves nothing out and has nothing twice, however often it is killed on the way there", function()
    local topic = fill(folder "a", 40000, { retention_ms = -1 }, 1)
    local seen = cluster()
    kill_loop("a", PATH, topic, 40000, function() return seen end)
  end)

  it("nor on the way back", function()
    local topic = fill(cluster(), 150000, { retention_ms = -1 }, 1)
    local seen
    kill_loop(PATH, "b", topic, 150000, function()
      seen = seen or folder "b"
      return seen
    end)
  end)

  it("goes on after the broker was away", function()
    local topic = fill(folder "a", 60000, { retention_ms = -1 }, 1)
    local pipe = scripts.start_sediment(directory, "copy", "a", name, PATH)
    local seen = cluster()
    for _ = 1, 400 do
      local copied = seen:topic(name)
      if copied and copied:latest() > 0 then break end
      disk.run "sleep 0.02"
    end
    local function broker(command) assert.equal(0, disk.run(("'%s' %s '%s' 1 > /dev/null 2>&1"):format(BROKER, command, DIR))) end
    broker "kill"
    disk.run "sleep 1"
    broker "restart"
    pipe:read "*a"
    pipe:close()
    copies("a", PATH)
    same_contents(topic, cluster():topic(name))
  end)
end)

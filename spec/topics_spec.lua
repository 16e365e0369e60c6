-- Topics: names, creation, listing, deletion, growth, and what handles of a deleted one answer.
local support = require "support"
local disk = require "disk"

local raised = support.raised

describe("topics", function()
  local store, path

  before_each(function()
    path = support.path()
    store = support.open(path)
  end)
  after_each(support.cleanup)

  it("are created by a config, even an empty one", function()
    local topic, message, code = store:topic "t"
    assert.is_nil(topic)
    assert.equal("unknown_topic", code)
    assert.matches("t", message)
    assert(store:topic("t", {}))
    assert(store:topic "t")
    assert(store:topic("t", {}))
    assert.equal("sediment.topic (t)", tostring(store:topic "t"))
  end)

  it("are listed by name", function()
    assert.same({}, store:topics())
    for _, name in ipairs { "b", "a", "c-1", "B", "a.b" } do store:topic(name, {}) end
    assert.same({ "B", "a", "a.b", "b", "c-1" }, store:topics())
    store:close()
    store = support.open(path)
    assert.same({ "B", "a", "a.b", "b", "c-1" }, store:topics())
  end)

  it("have Kafka's names", function()
    for _, name in ipairs { "a", "A-z.0_9", ("x"):rep(249), "__consumer_offsets", "-", "a-0" } do
      assert(store:topic(name, {}), name)
      assert(store:topic(name):append("k", "v"))
      assert.equal("k=v", support.words(store:topic(name):records()))
    end
    for _, name in ipairs { "", ".", "..", "a/b", "a b", "\195\164", ("x"):rep(250), "a\n", "a:b" } do
      assert.matches("topic name", raised(function() store:topic(name, {}) end))
      assert.matches("topic name", raised(function() store:delete_topic(name) end))
    end
    assert.equal(6, #store:topics())
    assert.matches("it has 250 characters; 249 are the most", raised(function() store:topic(("x"):rep(250), {}) end))
  end)

  it("have folders like a broker's", function()
    store:topic("t", { partitions = 3 })
    store:topic("t").append(store:topic "t", "k", "v")
    local folders = disk.list(path, "t-")
    assert.same({ "t-0", "t-1", "t-2" }, folders)
    for _, name in ipairs(disk.list(path)) do
      local kafkas = name:find "checkpoint$" or name == ".kafka_cleanshutdown" or name == ".lock"
      assert(name:find "^t%-" or name:find "^sediment%." or kafkas, name)
    end
    local metadata = disk.read(path .. "/t-1/partition.metadata")
    assert.matches("^version: 0\ntopic_id: [%w_%-]+", metadata)
    assert.equal(22, #metadata:match "topic_id: ([%w_%-]+)")
    assert.equal(metadata, disk.read(path .. "/t-2/partition.metadata"))
    assert.equal("0\n1\n0 0\n", disk.read(path .. "/t-0/leader-epoch-checkpoint"))
    assert.is_true(disk.exists(path .. "/t-0/00000000000000000000.log"))
    store:close()
    assert.is_true(disk.exists(path .. "/.kafka_cleanshutdown"))
    store = support.open(path)
    assert.is_false(disk.exists(path .. "/.kafka_cleanshutdown"))
  end)

  it("refuse to take over a folder that is not theirs", function()
    assert.equal(0, disk.run("mkdir '" .. path .. "/t-1'"))
    assert.equal("exists", select(3, store:topic("t", { partitions = 2 })))
    assert.same({}, store:topics())
    assert(store:topic("t", {}))
    assert.equal("exists", select(3, store:topic("t"):alter { partitions = 2 }))
  end)

  it("grow, and never shrink", function()
    local topic = store:topic("t", { partitions = 2 })
    assert.equal("unknown_partition", select(3, topic:latest(2)))
    assert.is_true(topic:alter { partitions = 4 })
    assert.equal(0, topic:latest(3))
    local result, message, code = topic:alter { partitions = 3 }
    assert.is_nil(result)
    assert.equal("policy", code)
    assert.matches("4", message)
    assert.equal("policy", select(3, store:topic("t", { partitions = 1 })))
    assert(store:topic("t", { partitions = 5 }))
    assert.equal(0, topic:latest(4))
    store:close()
    topic = support.open(path):topic "t"
    assert.equal(0, topic:latest(4))
    assert.equal("unknown_partition", select(3, topic:latest(5)))
    for _, n in ipairs { 0, -1, 1.5, "many" } do
      assert.matches("partitions", raised(function() topic:alter { partitions = n } end))
    end
  end)

  it("are shared by all their handles", function()
    local one, two = store:topic("t", {}), store:topic "t"
    one:append("a", "1")
    two:append("b", "1")
    assert.equal("a=1 b=1", support.words(one:records()))
    two:alter { retention_ms = 5 }
    assert.equal(5, one:config()["retention.ms"])
    two:alter { partitions = 2 }
    assert.equal(0, one:latest(1))
  end)

  it("answer unknown_topic everywhere once deleted", function()
    local topic = store:topic("t", {})
    topic:append("k", "v")
    assert.is_true(store:delete_topic "t")
    local calls = {
      append = { "k", "v" }, append_batch = { { { key = "k" } } }, earliest = {}, latest = {}, offset_for_time = { 0 },
      delete_records = { 0 }, roll = {}, flush = {}, retain = {}, compact = {}, segments = {}, config = {}, describe = {},
      alter = { {} }, stats = {},
    }
    for method, arguments in pairs(calls) do
      local result, message, code = topic[method](topic, arguments[1], arguments[2])
      assert.is_nil(result)
      assert.equal("unknown_topic", code, method)
      assert.equal("string", type(message))
    end
    assert.equal("unknown_topic", raised(function() topic:records() end).code)
    assert.equal("unknown_topic", select(3, store:table "t"))
    assert.equal("unknown_topic", select(3, store:delete_topic "t"))
    assert.is_true(store:delete_topic("t", { if_exists = true }))
  end)

  it("deleted are out of sight at once and off the disk later", function()
    local topic = store:topic("t", { partitions = 2 })
    topic:append("k", "v")
    store:topic("other", {})
    store:delete_topic "t"
    assert.same({ "other" }, store:topics())
    assert.equal(2, #disk.list(path, "-delete"))
    for _, name in ipairs(disk.list(path, "-delete")) do assert.equal(32, #name:match "^t%-%d%.(%x+)%-delete$") end
    store:maintain()
    assert.equal(2, #disk.list(path, "-delete"))
    support.now = support.now + 60000
    assert(store:maintain().files_deleted > 0)
    assert.equal(0, #disk.list(path, "-delete"))
    assert.same({ "other" }, store:topics())
  end)

  it("with a name that another's is the beginning of stay apart", function()
    store:topic("t", { partitions = 2 })
    store:topic("t-1", {})
    store:topic("t-1"):append("k", "v")
    store:delete_topic "t"
    assert.same({ "t-1" }, store:topics())
    assert.equal("k=v", support.words(store:topic("t-1"):records()))
  end)

  it("raise use after close", function()
    local topic = store:topic("t", {})
    store:close()
    for _, call in ipairs { function() store:topics() end, function() store:topic "t" end, function() topic:append("k", "v") end,
                            function() topic:records() end, function() topic:describe() end } do
      assert.matches("topics_spec%.lua:%d+: use after close", raised(call))
    end
    assert.is_true(store:close())
  end)

  it("that are deleted leave a folder behind that somebody has put another into, and nothing else suffers", function()
    store:topic("t", {}):append("k", "v")
    store:topic("other", {}):append("k", "v")
    assert.equal(0, disk.run("mkdir '" .. path .. "/t-0/sub'"))
    assert(store:delete_topic "t")
    support.now = support.now + 3600000
    local report = store:maintain()
    assert.equal(1, report.failed)
    assert.matches("/sub is none of a partition's files", report.reason)
    assert.equal(0, store:maintain().failed)
    local left = disk.list(path, "-delete")
    assert.equal(1, #left)
    assert.same({ "sub" }, disk.list(path .. "/" .. left[1]))
    store:close()
    store = support.open(path)
    assert.equal(1, store:topic("other"):latest())
  end)
end)

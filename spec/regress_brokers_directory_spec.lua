-- A store in a folder where brokers were, are, or will be: nothing is said of partitions that are not ours, nobody works beside a
-- broker, and a partition whose folder is gone does not begin anew.
local support = require "support"
local disk = require "disk"

describe("a store in a broker's log directory", function()
  local path
  before_each(function() path = support.path() end)
  after_each(support.cleanup)

  local function make(config)
    local store = support.open(path)
    local topic = store:topic("t", config or {})
    topic:append("k", "v")
    assert(store:close())
  end

  it("leaves no mark of an orderly end beside partitions that are not its own", function()
    make()
    assert.truthy(disk.exists(path .. "/.kafka_cleanshutdown"))
    assert.equal(0, disk.run("mkdir '" .. path .. "/theirs-0'"))
    local store = support.open(path)
    assert.equal(1, store:topic("t"):latest())
    store:close()
    assert.falsy(disk.exists(path .. "/.kafka_cleanshutdown"))
    assert.equal(0, disk.run("mv '" .. path .. "/theirs-0' '" .. path .. "/theirs-0.0123-stray'"))
    support.open(path):close()
    assert.truthy(disk.exists(path .. "/.kafka_cleanshutdown"))
  end)

  it("is not opened while a broker has it, nor a broker started while it is open", function()
    make()
    -- What Kafka does with java.nio's FileLock, which is a lock of fcntl.
    disk.write(path .. ".py", [[
import fcntl, sys
f = open(sys.argv[1] + "/.lock", "r+b")
try:
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
sys.exit(9 if len(sys.argv) > 2 and __import__("subprocess").call(sys.argv[2], shell=True) else 0)
]])
    local lock = "python3 '" .. path .. ".py' '" .. path .. "'"
    if disk.run "command -v python3 > /dev/null" ~= 0 then return pending "needs python3" end
    local open = disk.script(path .. ".lua", [[
      local store, message, code = require "sediment".open(arg[1], { background = false })
      assert(not store and code == "locked" and message:find("broker", 1, true), message)
    ]]) .. " '" .. path .. "'"
    disk.write(path .. ".sh", open)
    assert.equal(0, disk.run(lock .. " 'sh " .. path .. ".sh'"))
    local store = support.open(path)
    assert.equal(7, disk.run(lock))
    store:close()
    assert.equal(0, disk.run(lock))
  end)

  it("does not begin a partition anew whose folder a broker has renamed, or somebody has taken away", function()
    make()
    for _, name in ipairs { "t-0.93aa1ac3dd0e4d41a21a5a3d0c1d2f3e-stray", "elsewhere" } do
      assert(os.rename(path .. "/t-0", path .. "/" .. name))
      local store = support.open(path)
      local topic, message, code = store:topic "t"
      assert.same({ nil, "not_found" }, { topic, code })
      assert.truthy(message:find("t%-0 is missing"), message)
      assert.truthy(name == "elsewhere" or message:find(name, 1, true), message)
      assert.falsy(disk.exists(path .. "/t-0"))
      store:close()
      assert(os.rename(path .. "/" .. name, path .. "/t-0"))
      store = support.open(path)
      assert.equal("k=v", support.words(store:topic("t"):records()))
      store:close()
    end
    assert(os.rename(path .. "/t-0", path .. "/elsewhere"))
    local store = support.open(path)
    assert(store:delete_topic "t")
    assert.equal(0, store:topic("t", {}):latest())             -- another topic of the name
  end)

  it("says which topic id is expected in a folder that a broker gave another", function()
    make()
    local metadata = path .. "/t-0/partition.metadata"
    local ours = disk.read(metadata)
    disk.write(metadata, "version: 0\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg")
    local topic, message, code = support.open(path):topic "t"
    assert.same({ nil, "exists" }, { topic, code })
    assert.truthy(message:find(ours:match "topic_id: (%S+)", 1, true), message)
  end)

  it("says what a damaged partition.metadata should hold", function()
    make()
    local metadata = path .. "/t-0/partition.metadata"
    local ours = disk.read(metadata)
    for _, damaged in ipairs { "", "version: 1\n", ours:sub(1, -4), ours:gsub("topic", "tipoc") } do
      disk.write(metadata, damaged)
      local store = support.open(path)
      local topic, message, code = store:topic "t"
      assert.same({ nil, "corrupt" }, { topic, code })
      local first, second = message:match '"(version: 0)" and "(topic_id: %S+)"'
      disk.write(metadata, first .. "\n" .. second)
      assert.equal("k=v", support.words(store:topic("t"):records()))
      store:close()
    end
  end)
end)

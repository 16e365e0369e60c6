-- What is told when something has happened to a store's folder behind its back: the right code, and by whoever meets it.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("it is told", function()
  local path
  before_each(function() path = support.path() end)
  after_each(support.cleanup)

  it("when it cannot be seen whether a folder is a store", function()
    support.open(path):close()
    for _, name in ipairs { "sediment.lock", "sediment.topics" } do
      assert.equal(0, disk.run(("ln -sfn %s '%s/%s'"):format(name, path, name)))       -- a link to itself
    end
    local store, message, code = sediment.open(path, { create = false, background = false })
    assert.is_nil(store)
    assert.equal("io", code, message)
    assert.matches("sediment.lock", message)
  end)

  it("by maintain when a partition cannot be opened", function()
    local store = support.open(path)
    local topic = store:topic("t", { partitions = 3 })
    for p = 0, 2 do topic:append("k", "v", { partition = p }) end
    store:close()
    os.execute("rm -r '" .. path .. "/t-0' '" .. path .. "/t-2'")
    store = support.open(path)
    for _ = 1, 2 do
      local report = store:maintain()
      assert.equal(2, report.failed)
      assert.matches("t%-0 is missing", report.reason)
    end
  end)

  local function removed()
    local store = support.open(path)
    local topic = store:topic("t", { segment_bytes = 1000, cleanup_policy = "compact,delete" })
    for i = 1, 30 do topic:append("k" .. i % 4, ("v"):rep(50)) end
    os.execute("rm -r '" .. path .. "'")
    return topic, store
  end

  local calls = {
    flush = function(topic) return topic:flush() end,
    roll = function(topic) return topic:roll() end,
    retain = function(topic) return topic:retain { now = support.now + 10 ^ 10 } end,
    compact = function(topic) return topic:compact { force = true } end,
    delete_records = function(topic) return topic:delete_records(20) end,
    segments = function(topic) return topic:segments() end,
    stats = function(topic) return topic:stats() end,
    alter = function(topic) return topic:alter { partitions = 2 } end,
    append = function(topic) return topic:append("k", ("v"):rep(900)) end,
    append_batch = function(topic) return topic:append_batch { { key = "k", value = ("v"):rep(900) } } end,
    topic = function(_, store) return store:topic("u", {}) end,
    table = function(_, store) return store:table "t" end,
    delete_topic = function(_, store) return store:delete_topic "t" end,
    close = function(_, store) return store:close() end,
  }
  for name, call in pairs(calls) do
    it("as io by " .. name .. " when an open store was removed", function()
      local value, message, code = call(removed())
      assert.is_nil(value)
      assert.equal("io", code, message)
    end)
  end

  it("as io by a reader when an open store was removed", function()
    local topic = removed()
    assert.equal("io", support.raised(function() support.collect(topic:records()) end).code)
  end)
end)

-- A topic deleted and made anew under the same name has nothing of the old one.
local support = require "support"
local disk = require "disk"

describe("a topic that is deleted and created anew", function()
  after_each(support.cleanup)

  it("never shows old bytes", function()
    local path = support.path()
    local store = support.open(path)
    local old = store:topic("t", { partitions = 2, cleanup_policy = "compact" })
    for i = 1, 50 do old:append("k" .. i, "old") end
    old:roll()
    old:compact { force = true }
    local iterator = old:records()
    iterator()

    assert.is_true(store:delete_topic "t")
    assert.same({}, store:topics())
    assert.equal("unknown_topic", select(3, store:topic "t"))
    assert.equal("unknown_topic", select(3, old:append("k", "v")))
    assert.equal("unknown_topic", select(3, old:latest()))

    local topic = assert(store:topic("t", {}))
    assert.same({ 0, 0 }, { topic:earliest(), topic:latest() })
    assert.equal("unknown_partition", select(3, topic:latest(1)))
    assert.equal("delete", topic:config()["cleanup.policy"])
    assert.equal(0, topic:stats().partitions[0].clean_offset)
    assert.equal(-1, topic:stats().partitions[0].purge_floor)
    assert.equal("", support.words(topic:records()))
    assert.equal(0, (topic:append("new", "1")))
    assert.equal("new=1", support.words(topic:records()))
    assert.equal("unknown_topic", select(3, old:append("k", "v")))
    assert.equal(0, store:table("t"):get "k1" and 1 or 0)

    assert.equal(2, #disk.list(path, "-delete"))
    store:close()
    store = support.open(path)
    assert.equal("new=1", support.words(store:topic("t"):records()))
    assert.equal(0, #disk.list(path, "-delete"))
  end)

  it("may be missing with if_exists", function()
    local store = support.open()
    assert.equal("unknown_topic", select(3, store:delete_topic "none"))
    assert.is_true(store:delete_topic("none", { if_exists = true }))
    store:topic("t", {})
    assert.is_true(store:delete_topic("t", { if_exists = true }))
    assert.is_true(store:delete_topic("t", { if_exists = true }))
  end)

  it("survives doing it again and again", function()
    local store = support.open()
    for round = 1, 20 do
      local topic = store:topic("t", { partitions = round % 3 + 1 })
      for p = 0, round % 3 do
        assert.equal(0, (topic:append("k", "round " .. round, { partition = p })))
        assert.equal("k=round " .. round, support.words(topic:records { partition = p }))
        assert.equal(1, topic:delete_records(1, p))                -- the next topic's log does not start there
      end
      assert(store:delete_topic "t")
    end
  end)
end)

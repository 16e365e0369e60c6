-- cleanup.policy changes on a live topic; alter and describe tell value and source.
local support = require "support"

describe("cleanup.policy of a live topic", function()
  after_each(support.cleanup)

  it("goes from delete over compact to compact,delete", function()
    local topic, store = support.topic({}, { defaults = { ["segment.ms"] = "1d" } })
    local function described() return topic:describe()["cleanup.policy"] end
    assert.same({ value = "delete", source = "default" }, described())
    assert.same({ value = 86400000, source = "store" }, topic:describe()["segment.ms"])

    for i = 1, 3 do topic:append("a", tostring(i)) end
    topic:append(nil, "no key")
    topic:roll()
    assert.equal("policy", select(3, topic:compact()))
    assert.equal(4, #support.collect(topic:records()))

    assert.is_true(topic:alter { cleanup_policy = "compact", retention_ms = 1000 })
    assert.same({ value = "compact", source = "topic" }, described())
    assert.equal("invalid_record", select(3, topic:append(nil, "v")))
    support.now = support.now + 5000
    assert.same({ segments = 0, bytes = 0 }, topic:retain())
    assert.equal(1, topic:compact().keyless_dropped)
    assert.equal("a=3", support.words(topic:records()))
    assert.equal("policy", select(3, topic:delete_records(1)))

    assert.is_true(topic:alter { ["cleanup.policy"] = "compact,delete" })
    assert.same({ value = "compact,delete", source = "topic" }, described())
    topic:append("b", "1")
    assert.equal(1, store:maintain().segments)
    assert.equal("b=1", support.words(topic:records()))

    assert.is_true(topic:alter({}, { "cleanup.policy", "retention.ms" }))
    assert.same({ value = "delete", source = "default" }, described())
    assert.same({ value = 604800000, source = "default" }, topic:describe()["retention.ms"])
    assert.equal("policy", select(3, topic:compact()))
    assert(topic:append(nil, "v"))
  end)

  it("shows the store's default under the topic's own, as Kafka's synonyms do", function()
    local path = support.path()
    local store = support.open(path, { defaults = { cleanup_policy = "compact", retention_ms = "1h" } })
    local topic = store:topic("t", { retention_ms = "2h" })
    assert.same({ value = "compact", source = "store" }, topic:describe()["cleanup.policy"])
    assert.same({ value = 7200000, source = "topic" }, topic:describe()["retention.ms"])
    topic:alter({}, { "retention_ms" })
    assert.same({ value = 3600000, source = "store" }, topic:describe()["retention.ms"])
    topic:alter { cleanup_policy = "delete" }
    assert.same({ value = "delete", source = "topic" }, topic:describe()["cleanup.policy"])
    store:close()

    topic = support.open(path):topic "t"
    assert.same({ value = "delete", source = "topic" }, topic:describe()["cleanup.policy"])
    assert.same({ value = 604800000, source = "default" }, topic:describe()["retention.ms"])
    local config = topic:config()
    for name, d in pairs(topic:describe()) do assert.equal(d.value, config[name]) end
  end)
end)

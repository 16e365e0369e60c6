-- Configs of topics: values, sources, changes, mistakes.
local contract = require "contract.store"
local support = require "support"

local raised = support.raised

it("are described with their values, and where they come from", function()
  local topic = contract.topic { retention_ms = "1d", min_cleanable_dirty_ratio = 0.25, preallocate = false }
  local d, config = assert(topic:describe()), assert(topic:config())
  assert.same({ value = 86400000, source = "topic" }, d["retention.ms"])
  assert.same({ value = 0.25, source = "topic" }, d["min.cleanable.dirty.ratio"])
  assert.same({ value = false, source = "topic" }, d.preallocate)
  assert.same({ value = "delete", source = "default" }, d["cleanup.policy"])
  assert.equal(math.maxinteger or 2 ^ 63, config["flush.ms"])
  assert.same({ 86400000, 0.25, 1048588 }, { config["retention.ms"], config["min.cleanable.dirty.ratio"], config["max.message.bytes"] })
end)

it("are altered, and go back", function()
  local topic, store, name = contract.topic { retention_ms = "1d" }
  assert.is_true(topic:alter { ["segment.bytes"] = "2MiB", cleanup_policy = "compact,delete" })
  local d = assert(topic:describe())
  assert.same({ value = 2097152, source = "topic" }, d["segment.bytes"])
  assert.same({ value = 86400000, source = "topic" }, d["retention.ms"])
  assert.is_true(topic:alter({}, { "retention_ms", "cleanup.policy" }))
  d = assert(topic:describe())
  assert.equal("default", d["cleanup.policy"].source)
  assert.equal("topic", d["segment.bytes"].source)
  assert(store:topic(name, { retention_ms = "2d" }))
  assert.equal(172800000, topic:config()["retention.ms"])
end)

it("are kept", function()
  local _, store, name = contract.topic { retention_ms = "1d", partitions = 2 }
  store:close()
  local topic = assert(contract.open():topic(name))
  assert.same({ 86400000, 2 }, { topic:config()["retention.ms"], topic:partitions() })
end)

it("are refused with the same words", function()
  local topic, store = contract.topic()
  local function refuses(what, f, ...) assert.matches(what, raised(f, ...)) end
  refuses("config 'foo': there is no topic config of that name", store.topic, store, "x", { foo = 1 })
  refuses("config 'retention.ms': '7x' is not a number of milliseconds", store.topic, store, "x", { retention_ms = "7x" })
  refuses("config 'cleanup.policy'", topic.alter, topic, { cleanup_policy = "sometimes" })
  refuses("config 'retention.ms': it is given twice", topic.alter, topic, { retention_ms = 5, ["retention.ms"] = 5 })
  refuses("config 'foo': there is no topic config", topic.alter, topic, {}, { "foo" })
  refuses("config 'retention.ms': it is to be set and to go back to its default", topic.alter, topic, { retention_ms = 1 },
    { "retention.ms" })
  refuses("config: table expected, got nil", topic.alter, topic)
  refuses("names: string expected, got number", topic.alter, topic, {}, { 5 })
end)

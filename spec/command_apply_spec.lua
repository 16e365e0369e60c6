-- sediment apply: the difference between a file of topics and a store, shown and made.
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"
local plan = require "sediment.command.plan"

describe("sediment apply", function()
  local directory, store

  before_each(function()
    directory = support.foreign():gsub("/$", "")
  end)
  after_each(support.cleanup)

  local function write(text) disk.write(directory .. "/topics.lua", text) end
  local function apply(...) return scripts.sediment(directory, "apply", "topics.lua", "--store", "store", ...) end
  local function open()
    store = support.open(directory .. "/store")
    return store
  end

  local function says(expected, ...)
    local said, complaint, status = apply(...)
    assert.same({ expected, "", 0 }, { said, complaint, status })
  end

  local TWO = [[
    return {
      prices = { partitions = 3, cleanup_policy = "compact", retention_ms = "7d" },
      visits = { segment_bytes = "1MiB", ["min.cleanable.dirty.ratio"] = 0.25 },
    }]]
  local MADE = "+ prices: 3 partitions, cleanup.policy compact, retention.ms 604800000\n" ..
    "+ visits: 1 partition, min.cleanable.dirty.ratio 0.25, segment.bytes 1048576\n"

  it("makes what is missing, the store as well, and then finds nothing to do", function()
    write(TWO)
    says(MADE .. "2 topics to be made\n", "--dry-run")
    assert.equal(1, disk.run("test -e '" .. directory .. "/store'"))
    says(MADE .. "2 topics made\n")
    says "nothing to change\n"
    says("nothing to change\n", "--delete", "--reset")
    assert.same({ "prices", "visits" }, open():topics())
    assert.equal(3, store:topic("prices"):partitions())
    assert.equal(1048576, store:topic("visits"):config()["segment.bytes"])
    assert.equal("default", store:topic("visits"):describe()["retention.ms"].source)
  end)

  it("changes what differs, and shows what it was and why", function()
    open():topic("prices", { partitions = 2, cleanup_policy = "compact", segment_bytes = 5000 })
    store:topic("visits", { segment_bytes = 1048576, min_cleanable_dirty_ratio = 0.25 })
    store:topic("old", {})
    write(TWO:gsub('"7d"', '"1d"') .. "")
    local difference = "~ prices: partitions 2 -> 3\n~ prices: retention.ms 604800000 (default) -> 86400000\n" ..
      "  prices: segment.bytes 5000 is not in the file\n  old is not in the file\n"
    says(difference .. "1 topic to be changed\n", "--dry-run")
    assert.equal(2, store:topic("prices"):partitions())
    says(difference .. "1 topic changed\n")
    assert.same({ 3, 86400000, 5000 }, { store:topic("prices"):partitions(), store:topic("prices"):config()["retention.ms"],
      store:topic("prices"):config()["segment.bytes"] })
    says "  prices: segment.bytes 5000 is not in the file\n  old is not in the file\nnothing to change\n"
  end)

  it("brings the policy scripts that lie beside the file", function()
    local function script(text) disk.write(directory .. "/sessions.lua", text) end
    write 'return { users = { cleanup_policy = "compact", policy_script = "sessions.lua" } }'
    script "return { key = function() return 'keep', 2 end }"
    local users = "+ users: 1 partition, cleanup.policy compact, policy.script sessions\n"
    says("+ policy script sessions\n" .. users .. "1 topic to be made, 1 policy script to be put there\n", "--dry-run")
    says("+ policy script sessions\n" .. users .. "1 topic made, 1 policy script put there\n")
    says "nothing to change\n"
    assert.equal("return { key = function() return 'keep', 2 end }", open():policy "sessions")
    assert.equal("sessions", store:topic("users"):config()["policy.script"])
    script "return { key = function() return 'keep', 3 end }"
    says "~ policy script sessions\n1 policy script replaced\n"
    assert.equal("return { key = function() return 'keep', 3 end }", store:policy "sessions")
    write 'return { users = { cleanup_policy = "compact", policy_script = "sessions" } }'
    says "nothing to change\n"
  end)

  it("refuses policy scripts that are none, before anything is changed", function()
    local function refused(part)
      local said, complaint, status = apply()
      assert.same({ "", 1 }, { said, status })
      assert.truthy(complaint:find(part, 1, true), complaint)
      assert.same({}, disk.exists(directory .. "/store/sediment.topics") and open():topics() or {})
    end
    write 'return { a = {}, users = { cleanup_policy = "compact", policy_script = "sessions.lua" } }'
    refused "sessions.lua: No such file"
    disk.write(directory .. "/sessions.lua", "return 5")
    refused "policy script 'sessions': it returns number"
    disk.write(directory .. "/sessions.lua", "return { key = function() end }")
    scripts.shell("mkdir '" .. directory .. "/other'")
    disk.write(directory .. "/other/sessions.lua", "return { segment = function() end }")
    write 'return { a = { policy_script = "other/sessions.lua" }, users = { policy_script = "sessions.lua" } }'
    refused "two different policy scripts have the name 'sessions'"
    write 'return { a = { policy_script = "nothing" } }'
    refused "there is no policy script 'nothing'"
  end)

  it("leaves no store behind where it is refused", function()
    local function refused(part, text)
      write(text)
      local said, complaint, status = apply()
      assert.same({ "", 1 }, { said, status })
      assert.truthy(complaint:find(part, 1, true), complaint)
      assert.equal(1, disk.run("test -e '" .. directory .. "/store'"))
    end
    disk.write(directory .. "/keys.lua", "return { key = function() end }")
    disk.write(directory .. "/bad.lua", "return {")
    refused("there is no policy script 'nothing' yet", 'return { a = { policy_script = "nothing" } }')
    refused("bad.lua: policy script bad:1:", 'return { a = { policy_script = "bad.lua" } }')
    refused("topic 'a': policy script 'keys' decides of keys, and the topic is not compacted",
            'return { a = { policy_script = "keys.lua" } }')
    refused("topic '__consumer_offsets': it is the store's own", "return { __consumer_offsets = { partitions = 3 } }")
    open():topic("a", {})
    write 'return { a = { policy_script = "keys.lua" } }'
    assert.matches("the topic is not compacted", (select(2, apply())))
    assert.same({ {}, "delete" }, { store:policies(), store:topic("a"):config()["cleanup.policy"] })
    write 'return { a = { cleanup_policy = "compact", policy_script = "keys.lua" } }'
    says("+ policy script keys\n~ a: cleanup.policy delete (default) -> compact\n~ a: policy.script  (default) -> keys\n" ..
         "1 topic changed, 1 policy script put there\n")
  end)

  it("takes the topics of a table that has no more than those", function()
    write "return { topics = { a = {}, b = { partitions = 2 } } }"
    says "+ a: 1 partition\n+ b: 2 partitions\n2 topics made\n"
    write "return { topics = {} }"
    says "+ topics: 1 partition\n  a is not in the file\n  b is not in the file\n1 topic made\n"
  end)

  it("compares values as they work", function()
    open():topic("prices", { partitions = 3, cleanup_policy = "compact", retention_ms = 7 * 24 * 3600 * 1000 })
    write [[return { prices = { retention_ms = "168h", ["cleanup.policy"] = "compact", segment_bytes = "1GiB",
      flush_ms = "9223372036854775807", preallocate = false, min_cleanable_dirty_ratio = "0.5" } }]]
    says "nothing to change\n"
  end)

  it("deletes and resets what the file has not, when it is told to", function()
    open():topic("prices", { cleanup_policy = "compact", segment_bytes = 5000 })
    store:topic("old", {}):append("k", "v")
    store:consumer({ group = "g", topics = { "old" } }):commit { old = { [0] = 1 } }
    write 'return { prices = { cleanup_policy = "compact" } }'
    says("~ prices: segment.bytes 5000 -> the store's default\n- old\n1 topic changed, 1 topic deleted\n", "--delete", "--reset")
    assert.same({ "__consumer_offsets", "prices" }, store:topics())
    assert.equal("default", store:topic("prices"):describe()["segment.bytes"].source)
    says("nothing to change\n", "--delete", "--reset")
  end)

  it("refuses before it changes anything", function()
    open():topic("b", { partitions = 3 })
    local function refuses(text, expected)
      write(text)
      local said, complaint, status = apply()
      assert.same({ "", "sediment apply: " .. expected .. "\n", 1 }, { said, complaint, status })
      assert.same({ "b" }, store:topics())
    end
    refuses("return { a = {}, b = { partitions = 2 } }",
      "topic 'b' has 3 partitions; their number can grow only, not become 2; nothing was changed")
    refuses("return { a = {}, b = { retention = 5 } }",
      "topics.lua: topic 'b': config 'retention': there is no topic config of that name; did you mean 'retention.ms'?")
    refuses("return { a = {}, b = { min_compaction_lag_ms = 5, max_compaction_lag_ms = 4 } }",
      "topics.lua: topic 'b': config 'min.compaction.lag.ms': 5 is more than max.compaction.lag.ms, 4")
    refuses("return { a = {}, b = 1 }", "topics.lua: topic 'b': a table of configs expected, got number")
    refuses("return { a = {}, 'b' }", "topics.lua: names of topics are strings, got a number")
    refuses("return", "topics.lua: it returns a nil; a table expected")
    refuses("\nerror 'no'", "topics.lua:2: no")
    refuses("return { a = { partitions = 0 } }",
      "topics.lua: topic 'a': config 'partitions': 0 is outside [1, 100000]")
  end)

  it("refuses what contradicts the store's topics or folders before it changes anything", function()
    open():topic("b", { max_compaction_lag_ms = 4 })
    disk.run("mkdir '" .. directory .. "/store/c-1'")
    local function refuses(text, expected, ...)
      write(text)
      local said, complaint, status = apply(...)
      assert.same({ "", 1 }, { said, status })
      assert.is_truthy(complaint:find(expected .. "; nothing was changed\n", 1, true), complaint)
      assert.same({ "b" }, store:topics())
    end
    for _, option in ipairs { "--dry-run", "--delete" } do
      refuses("return { a = {}, b = { min_compaction_lag_ms = 5 } }",
        "topic 'b': config 'min.compaction.lag.ms': 5 is more than max.compaction.lag.ms, 4", option)
      refuses("return { a = {}, c = { partitions = 2 } }",
        "store/c-1 is there and belongs to no topic of this store; move it away, or give the topic another name", option)
    end
    refuses("return { a = {}, b = { min_compaction_lag_ms = 5, segment_bytes = 10000 } }", "5 is more than max.compaction.lag.ms, 4")
    write "return { a = {}, b = { min_compaction_lag_ms = 5 } }"
    says("+ a: 1 partition\n~ b: max.compaction.lag.ms 4 -> the store's default\n~ b: min.compaction.lag.ms 0 (default) -> 5\n" ..
      "1 topic made, 1 topic changed\n", "--reset")
  end)

  it("makes no store for what it refuses", function()
    for name, expected in pairs { ["a/b"] = "topic name 'a/b': 1 to 249", [("x"):rep(250)] = "it has 250 characters",
                                  ["z\0"] = "topic name: a string without NUL" } do
      write(("return { a = {}, [%q] = {} }"):format(name))
      for _, option in ipairs { "--dry-run", "--delete" } do
        local said, complaint, status = apply(option)
        assert.same({ "", 1 }, { said, status })
        assert.is_truthy(complaint:find("sediment apply: topics.lua: ", 1, true), complaint)
        assert.is_truthy(complaint:find(expected, 1, true), complaint)
      end
    end
    assert.is_false(disk.exists(directory .. "/store"))
  end)

  it("tells which topic it failed at", function()
    assert.same({ nil, "topic 'b': there is no topic 'b'; give a config, even {}, to create it", "unknown_topic" },
      { plan.perform(open(), { kind = "alter", name = "b", set = {} }) })
  end)

  it("takes the topics of a script", function()
    write [[return { topics = { t = { retention_ms = "1d" } }, on_record = print }]]
    says "+ t: 1 partition, retention.ms 86400000\n1 topic made\n"
    write [[return { topics = { t = { retention_ms = "1d" }, "other" }, on_record = print, on_done = 1 }]]
    assert.equal(1, select(3, apply()))
  end)
end)

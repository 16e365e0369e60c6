-- Policy scripts: what a script may decide of segments and keys, what it may not, and that one that fails keeps everything.
local support = require "support"
local disk = require "disk"

local DAY = 86400000

describe("a policy script", function()
  after_each(support.cleanup)

  -- A compacted topic t with the script, in a store of its own; also returns the store.
  local function scripted(script, config, options)
    local store = support.open(nil, options)
    assert(store:policy("p", script))
    local given = { cleanup_policy = "compact", policy_script = "p" }
    for name, value in pairs(config or {}) do given[name] = value end
    return assert(store:topic("t", given)), store
  end

  local function clean(topic, now) return assert(topic:compact { force = true, now = now }) end
  local function words(topic, ...) return support.words(topic:records(...)) end
  local function stats(topic) return topic:stats().partitions[0] end

  -- Appends each word, "a=1" or "a-", and rolls.
  local function segment(topic, text)
    for key, value in text:gmatch "(%w+)([=-]%w*)" do
      assert(topic:append(key, value:sub(1, 1) == "=" and value:sub(2) or nil))
    end
    assert(topic:roll())
  end

  describe("in the store", function()
    it("is put there, read back, listed, replaced and removed", function()
      local store = support.open()
      local one, two = "return { key = function() end }", "-- other\nreturn { segment = function() end }\n"
      assert.same({}, store:policies())
      assert.is_true(store:policy("one", one))
      assert.is_true(store:policy("a-2", two))
      assert.same({ "a-2", "one" }, store:policies())
      assert.equal(one, store:policy("one"))
      assert.is_true(store:policy("one", two))
      assert.equal(two, store:policy "one")
      assert.is_true(store:policy("one", false))
      assert.same({ nil, "not_found" }, { (store:policy "one"), (select(3, store:policy "one")) })
      assert.same("not_found", (select(3, store:policy("one", false))))
      assert.same({ "a-2" }, store:policies())
    end)

    it("is there for every process, after a reopening and in a backup", function()
      local topic, store = scripted "return { key = function() return 'keep' end }"
      local path, to = tostring(store):match "%((.*)%)", support.path()
      segment(topic, "a=1 a=2")
      assert(store:backup(to))
      store:close()
      for _, where in ipairs { path, to } do
        local again = support.open(where)
        assert.same({ "p" }, again:policies())
        local t = again:topic "t"
        assert.equal("p", t:config()["policy.script"])
        clean(t)
        assert.equal("a=1 a=2", words(t))
        assert.is_true(again:verify().ok)
        again:close()
      end
    end)

    it("is not removed while a topic has it, and must be there before one has", function()
      local topic, store = scripted "return { key = function() end }"
      local _, message, code = store:policy("p", false)
      assert.same({ "policy", true }, { code, message:find("topic 't'", 1, true) ~= nil })
      assert.same("not_found", (select(3, topic:alter { policy_script = "q" })))
      assert.same("not_found", (select(3, store:topic("u", { policy_script = "q" }))))
      assert(topic:alter({}, { "policy_script" }))
      assert.same({ value = "", source = "default" }, topic:describe()["policy.script"])
      assert.is_true(store:policy("p", false))
    end)

    it("is refused when it is no script, and what was there stays", function()
      local store = support.open()
      local good = "return { key = function() end }"
      assert(store:policy("p", good))
      local function refused(script, part)
        local ok, message, code = store:policy("p", script)
        assert.same({ nil, "policy" }, { ok, code })
        assert.truthy(message:find(part, 1, true), message)
      end
      refused("return {", "policy script p:1:")
      refused("", "it returns nil")
      refused("return {}", "neither segment")
      refused("return { keys = function() end }", "got keys")
      refused("return { key = 4 }", "key: function expected, got number")
      refused("error('\\1' .. 'no')", "no")
      refused("error({})", "an error that is not a string")
      refused(string.dump(assert(loadstring or load)(good)), "policy script")
      assert.equal(good, store:policy "p")
      refused("#!/usr/bin/lua\n" .. good, "without a byte order mark")
      refused("\239\187\191" .. good, "without a byte order mark")
      assert.same("too_large", (select(3, store:policy("p", good .. (" "):rep(65536)))))
      for _, name in ipairs { "", "a.b", "a/b", ("x"):rep(64) } do
        assert.truthy(support.raised(store.policy, store, name, good):find("its name is 1 to 63", 1, true))
      end
      assert.truthy(support.raised(store.policy, store, "p", true):find("script: a string", 1, true))
      assert.truthy(support.raised(store.policy, store, 1):find("name: string expected", 1, true))
    end)

    it("is not changed by a store that is read only", function()
      local topic, store = scripted "return { key = function() end }"
      local path = tostring(store):match "%((.*)%)"
      segment(topic, "a=1")
      store:close()
      local reader = support.open(path, { readonly = true })
      assert.same({ "p" }, reader:policies())
      assert.same("readonly", (select(3, reader:policy("p", "return { key = function() end }"))))
      assert.same("readonly", (select(3, reader:policy("p", false))))
    end)
  end)

  describe("for keys", function()
    it("keeps the last n records of each", function()
      local topic = scripted [[return { key = function(k)
        if k.key == "all" then return "keep" elseif k.key ~= "c" then return "keep", 2 end
      end }]]
      segment(topic, "a=1 c=1 a=2 all=1 b=1")
      segment(topic, "a=3 c=2 all=2")
      segment(topic, "a=4 b=2 all=3 c=3")
      local report = clean(topic)
      assert.equal("all=1 b=1 a=3 all=2 a=4 b=2 all=3 c=3", words(topic))
      assert.same({ 1, 0 }, { report.partitions, report.expired })
      segment(topic, "a=5 b=3")
      clean(topic)
      assert.equal("all=1 all=2 a=4 b=2 all=3 c=3 a=5 b=3", words(topic))
      assert.same({ 0, 0 }, { clean(topic).partitions, clean(topic).tombstones_removed })     -- nothing more to do
    end)

    it("is told what is known of the key, the active segment included", function()
      local topic = scripted [[return { key = function(k)
        local names = {}
        for name in pairs(k) do names[#names + 1] = name end
        table.sort(names)
        for i, name in ipairs(names) do names[i] = name .. "=" .. tostring(k[name]) end
        error(table.concat(names, " "), 0)
      end }]]
      topic:append("key", "12345", { timestamp = 5 })
      topic:roll()
      topic:append("key", nil, { timestamp = support.now - 7 })
      local _, message, code = topic:compact { force = true }
      assert.equal("policy", code)
      assert.equal(("t-0, the key of offset 1: policy script 'p': age=7 bytes=11 key=key now=%d offset=1 partition=0 records=2 " ..
                    "timestamp=%d tombstone=true topic=t"):format(support.now, support.now - 7), message)
    end)

    it("deletes by a tombstone at the end of the log, which everybody learns of", function()
      local topic, store = scripted [[return { key = function(k) if k.key:match "^s" and k.age > 1000 then return "delete" end end }]]
      local gone = {}
      segment(topic, "s1=x s2=x k=x s1=y")
      local view = store:table("t", { on_change = function(key, new) gone[#gone + 1] = key .. (new and "+" or "-") end })
      local consumer = store:consumer { topics = { "t" } }
      assert.equal(4, #consumer:poll())
      assert.equal(0, clean(topic).expired)
      support.now = support.now + 1001
      topic:append("s2", "again")
      gone = {}
      local report = clean(topic)
      assert.same({ 0, 1 }, { report.partitions, report.expired })
      assert.equal("s2=x k=x s1=y s2=again s1-", words(topic))       -- s1=x was superseded, s2 is young again
      assert.equal(2, view:update())
      assert.same({ "s2+", "s1-" }, gone)
      local records = consumer:poll()
      assert.same({ "s2", "s1", 2, support.now }, { records[1].key, records[2].key, #records, records[2].timestamp })
      assert.equal(0, clean(topic).expired)                           -- once is enough
      topic:roll()
      clean(topic)
      assert.equal("k=x s2=again s1-", words(topic))
      assert.equal(1, clean(topic, support.now + DAY).expired)        -- s2 by now
      assert.equal("k=x s2=again s2-", words(topic))
      assert.equal(5, stats(topic).purge_floor)
      consumer:close()
    end)

    it("decides of keys that are in the active segment alone", function()
      local topic = scripted "return { key = function(k) if k.age > 10 then return 'delete' end end }"
      topic:append("a", "1")
      support.now = support.now + 11
      topic:append("b", "1")
      assert.equal(1, clean(topic).expired)
      assert.equal("a=1 b=1 a-", words(topic))
    end)

    it("is asked by maintain each time, and by compact whatever the dirty ratio", function()
      local topic, store = scripted("return { key = function(k) if k.age > 10 then return 'delete' end end }",
        { min_cleanable_dirty_ratio = 1 })
      segment(topic, "a=1")
      assert.equal(0, store:maintain().expired)
      support.now = support.now + 11
      assert.equal(1, store:maintain().expired)
      assert.equal("a=1 a-", words(topic))
      topic:append("b", "1")
      support.now = support.now + 11
      assert.equal(1, topic:compact().expired)
    end)

    it("has a log rewritten when enough of it is superfluous", function()
      local topic = scripted("return { key = function() return 'keep', 2 end }", { min_cleanable_dirty_ratio = 0.5 })
      for i = 1, 4 do segment(topic, "a=" .. i) end
      for i = 1, 4 do segment(topic, "b" .. i .. "=1") end
      assert.equal(0, topic:compact().partitions)                     -- two of eight
      for i = 5, 15 do segment(topic, "a=" .. i) end
      assert.equal(1, topic:compact().partitions)                     -- thirteen of nineteen
      assert.equal("b1=1 b2=1 b3=1 b4=1 a=14 a=15", words(topic))
    end)

    it("does not decide of the topic's records that compaction would not touch", function()
      local topic = scripted("return { key = function() return 'compact' end }", { min_compaction_lag_ms = 1000 })
      segment(topic, "a=1 a=2")
      topic:append("a", "3")
      clean(topic)
      assert.equal("a=1 a=2 a=3", words(topic))
      support.now = support.now + 1001
      clean(topic)
      assert.equal("a=2 a=3", words(topic))                           -- the active segment stays, and does not count
    end)
  end)

  describe("never brings back what was deleted:", function()
    it("a tombstone stays as long as an older record of its key is kept", function()
      local topic = scripted([[return { key = function() return "keep", 3 end }]], { delete_retention_ms = 10 })
      segment(topic, "a=1 a=2 a-")
      clean(topic, support.now)
      clean(topic, support.now + 100)
      assert.equal("a=1 a=2 a-", words(topic))
      segment(topic, "a=3 a=4 a=5")
      clean(topic, support.now + 100)
      assert.equal("a=3 a=4 a=5", words(topic))
      segment(topic, "a-")
      clean(topic, support.now + 100)
      assert.equal("a=4 a=5 a-", words(topic))
    end)

    it("nor does a script that is taken away", function()
      local topic = scripted([[return { key = function(k) if k.key ~= "c" then return "keep" end end }]], { delete_retention_ms = 10 })
      segment(topic, "a=1 b=1 c=1")
      segment(topic, "a- b=2 c-")
      clean(topic, support.now)
      clean(topic, support.now + 100)
      assert.equal("a=1 b=1 a- b=2", words(topic))
      assert.equal(0, stats(topic).clean_offset)                      -- whoever cleans without the script begins at the start
      topic:alter { policy_script = "" }
      clean(topic, support.now + 200)
      assert.equal("b=2", words(topic))
      clean(topic, support.now + 300)
      assert.equal("b=2", words(topic))
    end)

    it("a key that is deleted and held, after any number of cleanings", function()
      local topic = scripted([[return {
        segment = function(s) if s.base_offset == 0 then return "keep" end end,
        key = function(k) if k.key == "a" then return "delete" end end,
      }]], { delete_retention_ms = 10 })
      segment(topic, "a=1 b=1 b=2")
      segment(topic, "a=2 c=1")
      for i = 1, 5 do
        clean(topic, support.now + i * 100)
        assert(topic:roll())
      end
      assert.equal("a=1 b=1 b=2 c=1 a-", words(topic))
      topic:delete_records(1)
    end)
  end)

  describe("for segments", function()
    local function deleted(config)
      config.cleanup_policy = "delete"
      return config
    end

    it("holds them against time and size, and so all that is newer", function()
      local hold = "return { segment = function(s) if s.base_offset == 1 then return 'keep' end end }"
      for _, limit in ipairs { { retention_ms = 10 }, { retention_bytes = 0, retention_ms = -1 } } do
        local topic, store = scripted(hold, deleted(limit))
        for i = 1, 4 do segment(topic, "a=" .. i) end
        support.now = support.now + 100
        assert.equal(1, topic:retain().segments)
        assert.equal("a=2 a=3 a=4", words(topic))
        assert(store:policy("p", "return { segment = function() end }"))         -- holds from the next one on
        assert.equal(3, topic:retain().segments)
      end
    end)

    it("holds the active one when that would be rolled to go", function()
      local topic, store = scripted("return { segment = function(s) return 'keep' end }", deleted { retention_ms = 10 })
      topic:append("a", "1")
      support.now = support.now + 100
      assert.same({ 0, "0" }, { topic:retain().segments, support.bases(topic) })
      assert(store:policy("p", "return { segment = function(s) assert(s.next_offset == 1 and s.size > 60 and s.index == 1) end }"))
      assert.equal(1, topic:retain().segments)
      assert.same({ 1, 1 }, { topic:earliest(), topic:latest() })
    end)

    it("deletes them when everything older has gone, and never the active one", function()
      local topic = scripted("return { segment = function(s) if s.base_offset ~= 2 then return 'delete' end end }",
        deleted { retention_ms = 1000 })
      for i = 1, 4 do segment(topic, "a=" .. i) end
      topic:append("a", "5")
      assert.equal(2, topic:retain().segments)
      assert.equal("a=3 a=4 a=5", words(topic))
      support.now = support.now + 1001
      topic:append("a", "6")
      assert.equal(2, topic:retain().segments)                        -- the third by its age, the fourth by the script
      assert.equal("a=5 a=6", words(topic))
    end)

    it("deletes them from a compacted topic as well, with their last values", function()
      local topic, store = scripted "return { segment = function(s) if s.base_offset == 0 then return 'delete' end end }"
      segment(topic, "a=1 b=1")
      segment(topic, "b=2")
      local view = store:table "t"
      assert.equal(2, view:count())
      assert.equal(1, store:maintain().segments)
      assert.equal("b=2", words(topic))
      view:update()
      assert.same({ nil, "2", 1 }, { view:get "a", view:get "b", view:count() })
    end)

    it("keeps them from compaction", function()
      local topic = scripted "return { segment = function(s) if s.base_offset == 2 then return 'keep' end end }"
      segment(topic, "a=1 b=1")
      segment(topic, "a=2 a=3")
      segment(topic, "a=4 a=5")
      clean(topic)
      assert.equal("b=1 a=2 a=3 a=5", words(topic))
      assert.equal("0 2 4 6", support.bases(topic))
    end)

    it("can leave them to compaction where retention would take them", function()
      local topic = scripted("return { segment = function(s) return 'compact' end }",
        { cleanup_policy = "compact,delete", retention_ms = 10 })
      segment(topic, "a=1 a=2")
      support.now = support.now + 100
      assert.equal(0, topic:retain().segments)
      clean(topic)
      assert.equal("a=2", words(topic))
      assert(topic:alter { cleanup_policy = "delete" })
      local _, message, code = topic:retain()
      assert.same({ "policy", true }, { code, message:find('says "compact"', 1, true) ~= nil })
    end)

    it("is told what is known of each", function()
      local topic, store = scripted("return { segment = function(s) return 'keep' end }", deleted {})
      topic:append("a", "1", { timestamp = 5 })
      topic:append("a", "2", { timestamp = 9 })
      topic:roll()
      topic:append("a", "3", { timestamp = -1 })
      topic:roll()
      local sizes = {}
      for i, s in ipairs(topic:segments()) do sizes[i] = s.size end
      assert(store:policy("p", [[return { segment = function(s)
        if s.base_offset == 0 then return "delete" end
        local names = {}
        for name in pairs(s) do names[#names + 1] = name end
        table.sort(names)
        for i, name in ipairs(names) do names[i] = name .. "=" .. tostring(s[name]) end
        error(table.concat(names, " "), 0)
      end }]]))
      local _, message = topic:retain()
      assert.equal(("t-0, the segment at offset 2: policy script 'p': age=0 base_offset=2 index=1 log_size=%d next_offset=3 now=%d " ..
                    "partition=0 records=1 segments=1 size=%d state=dirty topic=t"):format(sizes[2], support.now, sizes[2]), message)
    end)

    it("is told as if those before it had gone", function()
      local topic = scripted("return { segment = function(s) return s.segments > 3 and 'delete' or 'keep' end }",
        deleted { retention_ms = 10 })
      for i = 1, 7 do segment(topic, "a=" .. i) end
      support.now = support.now + 100
      assert.equal(4, topic:retain().segments)
      assert.equal(0, topic:retain().segments)
      assert.equal("a=5 a=6 a=7", words(topic))
    end)

    it("has no say where records were deleted before the log start", function()
      local topic = scripted("return { segment = function(s) return 'keep' end }", deleted {})
      for i = 1, 3 do segment(topic, "a=" .. i) end
      topic:delete_records(2)
      assert.equal(2, topic:retain().segments)
      assert.equal("a=3", words(topic))
    end)
  end)

  describe("that fails", function()
    local FAILURES = {
      ["raises"] = { "error 'oops'", "policy script p:1: oops" },
      ["has a fault"] = { "local x = nil + 1", "attempt to" },
      ["never ends"] = { "while true do end", "more than 1000000 instructions" },
      ["takes too much memory"] = { "local t = {} for i = 1, 1e6 do t[i] = { i } end", "MiB of memory" },
      ["makes huge strings"] = { "local s = 'x' for i = 1, 60 do s = s .. s end", "MiB of memory" },
      ["matches for ever"] = { "string.find(('a'):format() .. string.format('%60s', 'b'), 'a-a-a-a-a-c')", "may take too long" },
      ["searches for ever"] = { "local s = 'a' for _ = 1, 15 do s = s .. s end s:find(s, 1, true)", "may take too long" },
      ["begins anew for ever"] = {
        "for _ in string.format('%99s', ''):gsub(' ', '%%0%%0%%0'):gmatch('^.-.-.-x') do end", "may take too long",
      },
      ["matches within matches"] = { "local function f(s) return (s:gsub('.', f)) end f 'ab'", "matches within matches" },
      ["sorts long strings"] = { [[local s = "a" for _ = 1, 20 do s = s .. s end local t, other = {}, s .. "b"
        for i = 1, 20000 do t[i] = i % 2 == 0 and s or other end table.sort(t)]], "it runs for more than" },
      ["has lines in its message"] = { "error('one\\ntwo', 0)", "one two" },
      ["says another word"] = { "return 'remove'", "it says 'remove'" },
      ["says no word"] = { "return 3", "it says 'number'" },
      ["looks for files"] = { "return io.open('/etc/passwd')", "attempt to" },
      ["looks for code"] = { "return require 'sediment'", "attempt to" },
      ["catches errors"] = { "pcall(error)", "attempt to" },
    }
    for what, failure in pairs(FAILURES) do
      it("and " .. what .. " keeps everything, and is reported", function()
        local script = ("return { key = function(k) %s end, segment = function(s) %s end }"):format(failure[1], failure[1])
        local topic, store = scripted(script, { cleanup_policy = "compact,delete", retention_ms = 10, min_cleanable_dirty_ratio = 0 })
        segment(topic, "a=1 a=2")
        support.now = support.now + 1000
        for _, act in ipairs { "retain", "compact" } do
          local ok, message, code = topic[act](topic)
          assert.same({ nil, "policy" }, { ok, code })
          assert.truthy(message:find(failure[2], 1, true), message)
          assert.truthy(message:find("^t%-0, the segment at offset 0: ") or message:find("^t%-0, the key of offset 1: "), message)
        end
        local report = store:maintain()
        assert.same({ 1, 1, 0 }, { report.failed, report.uncleanable, report.segments })
        assert.truthy(report.reason:find(failure[2], 1, true), report.reason)
        assert.same({ "policy", "policy" }, { stats(topic).uncleanable, stats(topic).retention_failed })
        assert.truthy(store:metrics():find("sediment_unretained_partitions 1", 1, true))
        assert.equal("a=1 a=2", words(topic))

        assert(store:policy("p", "return { key = function() end }"))
        assert.equal(0, store:maintain().failed)
        assert.same({}, { stats(topic).uncleanable, stats(topic).retention_failed })
      end)
    end

    it("has decided nothing: what it said before does not count", function()
      local topic = scripted([[return { key = function(k) if k.key == "z" then error "oops" end return "delete" end,
        segment = function(s) if s.base_offset > 2 then error "oops" end return s.base_offset == 0 and "delete" or "keep" end }]],
        { cleanup_policy = "compact,delete" })
      local big = ("k"):rep(50000)
      for i = 1, 40 do topic:append(big .. i, "v") end                -- more than is gathered at once
      topic:append("z", "v")
      for _ = 1, 5 do segment(topic, "a=1") end
      local log_end = topic:latest()
      assert.same("policy", (select(3, topic:compact { force = true })))
      assert.same("policy", (select(3, topic:retain())))
      assert.same({ 0, log_end }, { topic:earliest(), topic:latest() })
    end)

    it("gives up a key whose tombstone the topic does not take: the others go all the same", function()
      local topic = scripted "return { key = function(k) if k.key ~= 'x' then return 'delete' end end }"
      assert(topic:append(("k"):rep(5000), "v"))
      segment(topic, "a=1 x=1 x=2 b=1")
      topic:alter { max_message_bytes = 1000 }
      assert.same("too_large", (select(3, topic:compact { force = true })))
      local seen = {}
      for _, key, value in topic:records() do seen[key] = value or false end
      assert.same({ a = false, b = false, x = "2", [("k"):rep(5000)] = "v" }, seen)
      assert.equal(1, topic:segments()[1].records - 3)                -- x=1 has gone
    end)

    it("is missing: verify says so", function()
      local _, store = scripted "return { key = function() end }"
      os.remove(tostring(store):match "%((.*)%)" .. "/sediment.policy-p")
      support.damaged()
      local report = store:verify()
      assert.same({ false, "not_found" }, { report.ok, report.problems[1].code })
    end)

    it("keeps a number that is none", function()
      for _, number in ipairs { "0", "-1", "1.5", "'2'", "0/0" } do
        local topic = scripted("return { key = function() return 'keep', " .. number .. " end }")
        segment(topic, "a=1 a=2")
        assert.same("policy", (select(3, topic:compact { force = true })))
        assert.equal("a=1 a=2", words(topic))
      end
      local topic = scripted "return { key = function() return 'delete', 2 end }"
      segment(topic, "a=1 a=2")
      assert.truthy(select(2, topic:compact { force = true }):find('only "keep" is followed', 1, true))
    end)

    it("is damaged or missing on the disk: everything stays", function()
      local topic, store = scripted("return { key = function() return 'delete' end }",
        { cleanup_policy = "compact,delete", retention_ms = 10 })
      local file = tostring(store):match "%((.*)%)" .. "/sediment.policy-p"
      segment(topic, "a=1 a=2")
      support.now = support.now + 1000
      local bytes = disk.read(file)
      support.damaged()
      local bad = { bytes:gsub("delete", "keep"), bytes:sub(2), "", bytes:sub(1, -2) }
      for _, damaged in ipairs(bad) do
        disk.write(file, damaged)
        assert.same("policy", (select(3, topic:compact { force = true })))
        assert.same("policy", (select(3, topic:retain())))
        assert.equal("corrupt", (select(3, store:policy "p")))
        assert.is_false(store:verify().ok)
      end
      os.remove(file)
      local _, message, code = topic:retain()
      assert.same({ "policy", true }, { code, message:find("there is no policy script 'p'", 1, true) ~= nil })
      assert.equal("a=1 a=2", words(topic))
      disk.write(file, bytes)
      assert.equal(1, clean(topic).expired)
    end)

    it("decides of keys, and the topic is not compacted: that is refused, or keeps everything", function()
      local topic, store = scripted("return { segment = function() end }", { cleanup_policy = "delete", retention_ms = 10 })
      local function refused(made, message, code)
        assert.same({ nil, "policy" }, { made, code })
        assert.truthy(message:find("decides of keys, and topic", 1, true), message)
      end
      assert(store:policy("keys", "return { key = function() return 'delete' end }"))
      refused(store:topic("u", { policy_script = "keys" }))
      refused(topic:alter { policy_script = "keys" })
      local compacted = assert(store:topic("v", { cleanup_policy = "compact", policy_script = "keys" }))
      refused(compacted:alter { cleanup_policy = "delete" })
      assert(compacted:alter { cleanup_policy = "delete", policy_script = "" })
      segment(topic, "a=1")
      support.now = support.now + 1000
      assert(store:policy("p", "return { key = function() return 'delete' end }"))
      refused(topic:retain())
      assert.equal("a=1", words(topic))
    end)

    it("is the name of a file", function()
      local _, message = support.open():policy("p", "sessions.lua")
      assert.equal("policy script 'p': the script itself is expected, not the name of its file", message)
    end)

    it("has more keys than there is memory for", function()
      local topic = scripted("return { key = function() return 'compact' end }",
        nil, { options = { ["log.cleaner.dedupe.buffer.size"] = 1000, ["log.cleaner.threads"] = 1 } })
      for i = 1, 100 do topic:append("k" .. i, "v") end
      for i = 1, 100 do topic:append("k" .. i, "w") end
      topic:roll()
      local _, message, code = topic:compact { force = true }
      assert.same({ "policy", true }, { code, message:find("log.cleaner.dedupe.buffer.size", 1, true) ~= nil })
      assert.equal(200, #support.collect(topic:records()))
    end)

    it("cannot reach another call's state, nor the program's", function()
      local topic, store = scripted "n = 0 return { key = function() n = n + 1 if n > 2 then error 'third' end end }"
      segment(topic, "a=1 b=1")
      for _ = 1, 3 do clean(topic) end                                 -- each run has a state of its own
      assert.is_nil(rawget(_G, "n"))
      assert(store:policy("p", [[local names = {}
        for name in pairs(_G or {}) do names[#names + 1] = name end
        return { key = function()
          string.format = nil
          error(tostring(_G) .. tostring(os) .. tostring(debug) .. tostring(load) .. tostring(getmetatable), 0)
        end }]]))
      local _, message = topic:compact { force = true }
      assert.truthy(message:find("nilnilnilnilnil", 1, true), message)
      assert.equal("x", string.format("%s", "x"))
    end)
  end)

  it("has the library that it is said to have, the same on both Luas", function()
    local topic = scripted [[
      local t = { 3, 1, 2 }
      table.sort(t)
      assert(table.concat(t, ",") == "1,2,3")
      table.sort(t, function(a, b) return a > b end)
      table.insert(t, 0)
      table.insert(t, 1, 4)
      assert(table.concat(t, ",") == "4,3,2,1,0")
      assert(table.remove(t) == 0 and table.remove(t, 1) == 4 and table.concat(t, ",") == "3,2,1" and table.remove({}) == nil)
      assert(select("#", table.unpack(t)) == 3 and select(2, table.unpack(t)) == 2)
      local many = {}
      for i = 1, 1000 do many[i] = (i * 7919) % 1000 end
      table.sort(many)
      for i = 1, 1000 do assert(many[i] == i - 1) end
      assert(math.floor(1.5) == 1 and math.max(1, 2) == 2 and math.huge > 1)
      assert(("session:17"):match("^session:(%d+)$") == "17" and ("a.b"):find(".", 1, true) == 2 and ("x").rep == nil)
      assert(pcall == nil and setmetatable == nil and unpack == nil and load == nil)
      return { key = function() end }]]
    segment(topic, "a=1 a=2")
    clean(topic)
    assert.equal("a=2", words(topic))
  end)

  it("goes by a model of its rules", function()
    for seed = 1, 12 do
      local drawn = seed
      local function draw(n)
        drawn = (drawn * 16807) % 2147483647
        return drawn % n + 1
      end
      local topic = scripted([[return { key = function(k)
        local kind = k.key:sub(1, 1)
        if kind == "n" then return "keep", 3 end
        if kind == "a" then return "keep" end
        if kind == "t" and k.age > 50 then return "delete" end
      end }]], { delete_retention_ms = 40, segment_bytes = 100000 })
      local log, state = {}, {}                                        -- every record; what a reader knows
      local closed = 0
      for _ = 1, 120 do
        support.now = support.now + draw(10)
        local what = draw(10)
        if what <= 7 then
          local key = ("nact"):sub(draw(4)):sub(1, 1) .. draw(3)
          local value = draw(4) > 1 and tostring(draw(1000)) or nil
          log[#log + 1] = { key = key, value = value, offset = topic:append(key, value), time = support.now }
          state[key] = value
        elseif what == 8 then
          topic:roll()
          closed = #log
        else
          clean(topic)
          for key in pairs(state) do
            local last
            for _, r in ipairs(log) do if r.key == key then last = r end end
            if key:sub(1, 1) == "t" and last.value and support.now - last.time > 50 then
              log[#log + 1] = { key = key, offset = false, time = support.now }
            end
          end
          for _, r in ipairs(log) do if r.value == nil then state[r.key] = nil else state[r.key] = r.value end end
        end
        local seen, there, versions = {}, {}, {}
        for offset, key, value in topic:records() do
          seen[key] = value
          there[offset] = true
        end
        assert.same(state, seen)                                       -- the last value of each key, and nothing that was deleted
        for i = closed, 1, -1 do
          local r = log[i]
          local rank, kind = (versions[r.key] or 0) + 1, r.key:sub(1, 1)
          versions[r.key] = rank
          if r.value and (kind == "a" or (kind == "n" and rank <= 3) or rank == 1) then assert.is_true(there[r.offset], r.key) end
        end
      end
    end
  end)
end)

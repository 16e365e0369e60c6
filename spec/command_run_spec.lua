-- sediment run: what a script is given and what is committed. How a run is ended: command_run_signals_spec.
local sediment = require "sediment"
local core = require "sediment.core"
local source = require "sediment.command.source"
local of = require "commands"
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local COUNT, write, run, fill, committed = of.COUNT, of.write, of.run, of.fill, of.committed

describe("sediment run", function()
  local directory, store

  before_each(function() directory, store = of.begin() end)
  after_each(support.cleanup)

  it("gives every record to on_record, and goes on where it was", function()
    local topic = fill(5)
    write(COUNT)
    local said, complaint, status = run()
    assert.same({ "5\t5\n", 0 }, { said, status })
    assert.matches("^sediment run: 5 records in %d+%.%d s; committed for group s\n$", complaint)
    assert.equal(5, committed())
    topic:append("k", "6")
    assert.equal("1\t6\n", (run()))
    assert.equal("0\tnil\n", (run()))
    assert.equal(6, committed())
  end)

  it("gives it whole records, of all partitions in their order", function()
    local topic = store:topic("t", { partitions = 3 })
    for i = 1, 30 do topic:append(nil, i, { partition = i % 3, headers = { { "h", "x" } }, timestamp = 1700000000000 + i }) end
    topic:append("k", nil, { partition = 0 })
    write [[
      local last = {}
      return { topics = { "t" }, on_record = function(r)
        assert(r.offset == (last[r.partition] or -1) + 1)
        last[r.partition] = r.offset
        if r.value then assert(r.headers[1][2] == "x" and r.timestamp == 1700000000000 + r.value) else print("tombstone", r.key) end
      end }]]
    local said, _, status = run()
    assert.same({ "tombstone\tk\n", 0 }, { said, status })
    assert.same({ 11, 10, 10 }, { committed("s", 0), committed("s", 1), committed("s", 2) })
  end)

  it("makes the topics that the script defines, and changes none", function()
    store:topic("old", { retention_ms = 5000 })
    write [[return { topics = { t = { partitions = 2, cleanup_policy = "compact" }, old = { retention_ms = "1d" } },
      from = { "t" }, on_record = print }]]
    local _, complaint, status = run()
    assert.equal(0, status)
    assert.same({ 2, "compact" }, { store:topic("t"):partitions(), store:topic("t"):config()["cleanup.policy"] })
    assert.equal(5000, store:topic("old"):config()["retention.ms"])
    assert.matches("topic 'old' is not as the script defines it; `sediment apply %-%-dry%-run s.lua` tells how\n", complaint)
    assert.is_nil(complaint:find "topic 't'")
  end)

  it("leaves a topic that has more partitions than it defines, and reads them all", function()
    store:topic("t", { partitions = 3 }):append("k", "v", { partition = 2 })
    write [[return { topics = { t = { partitions = 1 }, "dead" }, dead_letter = "dead", on_record = function(r) print(r.partition) end }]]
    store:topic("dead", {})
    local said, complaint, status = run()
    assert.same({ "2\n", 0 }, { said, status })
    assert.matches("topic 't' is not as the script defines it", complaint, 1, true)
  end)

  it("commits nothing before what it printed is out", function()
    fill(50)
    write [[return { topics = { "t" }, commit_every = 10, on_record = function(r) io.write(r.value, "\n") end }]]
    local function to(file, ...)
      return scripts.shell("(" .. scripts.sediment_command(directory, ...) .. ") 2>&1 >> " .. file .. "; echo \"status $?\"")
    end
    assert.matches("cannot write to stdout: .*status 1\n", to("/dev/full", "run", "s.lua", "--store", "store", "-q"))
    assert.is_nil(committed "s")
    assert.matches("cannot write to stdout: .*status 1\n", to("/dev/full", "cat", "t", "--store", "store"))
    write [[
      return { topics = { "t" }, commit_every = 10, on_record = function(r)
        io.write(r.value, "\n")
        if r.offset == 25 then os.execute "kill -9 $PPID" end
      end }
    ]]
    to(directory .. "/out", "run", "s.lua", "--store", "store", "-q")
    local lines = {}
    for line in io.lines(directory .. "/out") do lines[#lines + 1] = line end
    assert.equal(committed "s", #lines)
    assert.equal(20, #lines)
  end)

  it("keeps a state for each key, when there is a key function", function()
    fill(10)
    write [[return {
      topics = { "t" },
      key = function(r) if r.value ~= "3" then return r.key end end,
      init = function(state, store, key) state.name, state.n = key:upper() .. (store:topic "t":partitions()), 0 end,
      on_record = function(_, state) state.n = state.n + 1 end,
      on_done = function(states) print(states.k0.name, states.k0.n, states.k1.n, states.k2.n) end,
    }]]
    assert.equal("K01\t2\t4\t3\n", (run()))
  end)

  it("gives the script the store, and its arguments", function()
    fill(3)
    write [[
      local factor = ...
      local out
      return { topics = { "t", out = {} }, from = { "t" },
        init = function(_, store) out = store:topic "out" end,
        on_record = function(r) assert(out:append(r.key, r.value * factor)) end }]]
    assert.equal(0, select(3, run "2"))
    assert.equal("k1=2 k2=4 k0=6", support.words(store:topic("out"):records()))
  end)

  it("ends where the logs ended when it began, though the script appends to them", function()
    local topic = fill(3)
    write [[local t; return { topics = { "t" }, init = function(_, store) t = store:topic "t" end,
      on_record = function(r) assert(t:append(r.key, r.value .. "+")) end }]]
    assert.equal(0, select(3, run()))
    assert.equal(6, topic:latest())
  end)

  -- ---------------------------------------------------------------------------------------------------------------------- failures

  local PICKY = [[
    local n = 0
    return { topics = { "t" }, commit_every = 2,
      on_record = function(r)
        n = n + 1
        local sum = r.value + 1
      end, OTHER
      on_done = function() print(n) end }]]

  local function fill_with_bad()
    local topic = fill(5)
    topic:append("k\n", "six", { headers = { { "h", "x" } } })
    topic:append("k", "7")
    return topic
  end

  it("ends at a record that the script fails on: with the line, the record, and what was before it committed", function()
    fill_with_bad()
    write((PICKY:gsub("OTHER", "")))
    for _ = 1, 2 do
      local said, complaint, status = run "-q"
      assert.same({ "", 1 }, { said, status })
      assert.matches("^sediment run: s%.lua:5: attempt to [^\n]*\n  in record t%-0@5, key \"k\\n\"\n" ..
        "  what came before is committed; the next run goes on there\n$", complaint)
      assert.equal(5, committed())
    end
  end)

  it("puts such a record aside, when there is a topic for that", function()
    fill_with_bad()
    write((PICKY:gsub("OTHER", 'dead_letter = "dead",')))
    local said, complaint, status = run()
    assert.same({ "7\n", 0 }, { said, status })
    assert.matches("7 records in [%d.]+ s, 1 put aside in dead; committed for group s\n", complaint)
    assert.equal(7, committed())
    local dead = support.collect(store:topic("dead"):records())
    assert.equal(1, #dead)
    assert.same({ "k\n", "six" }, { dead[1].key, dead[1].value })
    local headers = dead[1].headers
    assert.matches("^s.lua:5: attempt to ", table.remove(headers)[2])
    assert.same({ { "h", "x" }, { "__connect.errors.topic", "t" }, { "__connect.errors.partition", "0" },
      { "__connect.errors.offset", "5" } }, headers)
  end)

  it("ends when it cannot put a record aside", function()
    store:topic("dead", { cleanup_policy = "compact" })
    local topic = fill(1)
    topic:append(nil, "x")
    write((PICKY:gsub("OTHER", 'dead_letter = "dead",')))
    local _, complaint, status = run()
    assert.equal(1, status)
    assert.matches("it cannot be put aside in dead: .*\n  in record t%-0@1, key none\n", complaint)
    assert.equal(1, committed())
  end)

  it("puts a record aside as it was, whatever the script has made of it", function()
    store:topic("t", { partitions = 2 }):append("k", "v", { partition = 1, headers = { { "h" } } })
    write [[return { topics = { "t", dead = {} }, dead_letter = "dead", on_record = function(r)
      r.headers[1][1], r.headers[1][2], r.headers[2] = "changed", "x", { "more", "y" }
      for name in pairs(r) do r[name] = nil end
      r.partition, r.offset = 0, 77
      error "no"
    end }]]
    assert.equal(0, select(3, run()))
    local dead = support.collect(store:topic("dead"):records())[1]
    assert.same({ "k", "v", { "h" }, { "__connect.errors.topic", "t" }, { "__connect.errors.partition", "1" },
      { "__connect.errors.offset", "0" } }, { dead.key, dead.value, (table.unpack or unpack)(dead.headers, 1, 4) })
    assert.equal(1, committed("s", 1))
    assert.equal(0, committed("s", 0))
  end)

  it("puts it aside with what headers there are when the log does not have it any more", function()
    store:topic("t", {}):append("k", "v", { headers = { { "h", "x" } } })
    write [[local t; return { topics = { "t", dead = {} }, dead_letter = "dead", init = function(_, store) t = store:topic "t" end,
      on_record = function(r)
        r.headers[1][2] = "changed"
        assert(t:delete_records(1))
        error "no"
      end }]]
    assert.equal(0, select(3, run()))
    assert.same({ "h", "changed" }, support.collect(store:topic("dead"):records())[1].headers[1])
  end)

  it("tells the script's line of what the library answers, and of other errors", function()
    fill(1)
    local function complains(body, expected)
      write("return { topics = { 't' },\n on_record = function(r)\n" .. body .. "\n end }")
      local _, complaint, status = run "-q"
      assert.equal(1, status)
      local message = "sediment run: " .. expected .. "\n  in record t-0@0, key \"k1\"\n"
      assert.equal(message, complaint:sub(1, #message))
    end
    complains("error 'no'", "s.lua:3: no")
    complains("error('no', 0)", "s.lua:3: no")
    complains("assert(nil, 'disk full')", "s.lua:3: disk full")
    complains("local function f()\n error { 1 }\n end f() return 1", "s.lua:4: an error that is a table")
    complains("error(setmetatable({}, { __tostring = function() return 'an object' end }))", "s.lua:3: an object")
    complains("string.rep()", "s.lua:3: bad argument #1 to 'rep' (string expected, got no value)")
  end)

  it("obeys nothing of what it tells of", function()
    store:topic("t", {}):append("\27[2J\n", "\27[2J\255")
    write [[return { topics = { "t" }, on_record = function(r) error(r.value) end }]]
    local complaint = select(2, scripts.sediment(directory, "run", "s.lua", "--store", "store", "--group", "\27[2J"))
    assert.is_nil(complaint:find "[\27\255]")
    assert.is_truthy(complaint:find('s.lua:1: \\x1b[2J\\xff\n  in record t-0@0, key "\\x1b[2J\\n"\n', 1, true), complaint)
    write [[return { topics = { "t" }, on_record = function() end }]]
    complaint = select(2, scripts.sediment(directory, "run", "s.lua", "--store", "store", "--group", "\27[2J"))
    assert.is_truthy(complaint:find("for group \\x1b[2J\n", 1, true), complaint)
  end)

  it("tells where else a script fails", function()
    fill(1)
    local function complains(text, expected)
      write(text)
      local said, complaint, status = run "-q"
      assert.same({ "", 1 }, { said, status })
      assert.equal("sediment run: " .. expected .. "\n", complaint)
    end
    local function script(fields) return "return { topics = { 't' }, on_record = print,\n" .. fields .. " }" end
    complains(script "init = function() error 'no' end", "s.lua:2: no\n  in init")
    complains(script "on_record = function() end, on_done = function() error 'no' end",
      "s.lua:2: no\n  in on_done; what came since the last commit is not committed")
    assert.is_nil(committed())
    complains(script "key = function() error 'no' end", "s.lua:2: no\n  in record t-0@0, key \"k1\"\n" ..
      "  what came before is committed; the next run goes on there")
    complains(script "key = function() return {} end", "s.lua: key: a string or a number expected, got table\n" ..
      "  in record t-0@0, key \"k1\"\n  what came before is committed; the next run goes on there")
    complains("error 'no'", "s.lua:1: no")
    complains("\nreturn {", jit and "s.lua:2: unexpected symbol near '<eof>'" or "s.lua:2: unexpected symbol near <eof>")
    complains("return 1", "s.lua: it returns a number; a table expected")
    complains(script "on_recrod = 1", "s.lua: there is no field 'on_recrod'; there are commit_every, dead_letter, from, group, init, " ..
      "isolation, key, on_corrupt, on_done, on_record, topics")
    complains("return {}", "s.lua: on_record: function expected, got nil")
    complains(script "commit_every = 0", "s.lua: commit_every: a whole number of 1 or more, or false, expected")
    complains(script "commit_every = 'x'", "s.lua: commit_every: false or number expected, got 'x'")
    complains(script "on_corrupt = 'ignore'", "s.lua: on_corrupt: \"fail\" or \"skip\" or function expected, got 'ignore'")
    complains(script "isolation = 'x'", "s.lua: isolation: \"committed\" or \"uncommitted\" expected, got 'x'")
    complains(script "init = 5", "s.lua: init: function expected, got 5")
    complains(script "topics = {}", "s.lua: it reads nothing: topics or from expected, with another one than dead_letter")
    complains(script "topics = { x = { retention = 1 } }",
      "s.lua: topic 'x': config 'retention': there is no topic config of that name; did you mean 'retention.ms'?")
    complains(script "topics = { x = 1 }", "s.lua: topic 'x': a table of configs expected, got number")
    complains(script "topics = { 1 }", "s.lua: topics: [1]: a topic's name expected, got 1")
    complains(script "from = { {} }", "s.lua: from: [1]: a topic's name expected, got table")
    complains(script "from = { 't' }, dead_letter = 't'", "s.lua: dead_letter: it is a topic that is read")
    complains(script "dead_letter = '__consumer_offsets'", "s.lua: dead_letter: it is the topic of commits")
    complains(script "topics = { 'none' }", "there is no topic 'none'; `sediment topics` lists those that there are")
  end)

  it("fails at damage, unless the script says otherwise", function()
    support.damaged()
    local topic = store:topic("t", {})
    for i = 1, 3 do topic:append_batch { { key = "k", value = "value " .. i } } end
    topic:roll()
    topic:append("k", "last")
    store:close()
    local log = directory .. "/store/t-0/" .. disk.log(0)
    disk.write(log, (disk.read(log):gsub("value 2", "value X")))
    write(COUNT)
    local said, complaint, status = run "-q"
    assert.same({ "", 1 }, { said, status })
    assert.matches("offsets 1 to 1", complaint)
    write((COUNT:gsub("topics", "on_corrupt = function(t, p, from, to) print(t, p, from, to) end, topics", 1)))
    assert.equal("t\t0\t1\t2\n2\tlast\n", (run "-q"))
    write((COUNT:gsub("topics", "on_corrupt = function() error 'no' end, topics", 1)))
    assert.equal("sediment run: s.lua:2: no\n  what came before is committed; the next run goes on there\n",
      select(2, run("-q", "--from", "earliest")))
    write((COUNT:gsub("topics", "on_corrupt = 'skip', topics", 1)))
    assert.equal("3\tlast\n", (run("-q", "--from", "earliest")))
    assert.equal("3\tlast\n", (scripts.sediment(directory, "run", "s.lua", "--partition", "store/t-0")))
    store = support.open(directory .. "/store")
  end)

  it("tells of deletions that a compaction took before they were read", function()
    local topic = fill(3, { cleanup_policy = "compact", delete_retention_ms = 0, file_delete_delay_ms = 0 })
    write(COUNT)
    assert.equal(0, select(3, run()))
    topic:append("k1")
    topic:roll()
    for _ = 1, 3 do
      topic:compact { force = true }
      support.now = support.now + 1000
    end
    local _, complaint, status = run "-q"
    assert.equal(1, status)
    assert.matches("compacted away .*\n  %(%-%-from earliest begins anew%)\n", complaint)
    assert.equal("2\t3\n", (run("--from", "earliest")))
    assert.equal("0\tnil\n", (run()))
  end)

  -- ------------------------------------------------------------------------------------------------------------------- where it begins

  it("begins where it is told to, and goes on from there", function()
    local topic = store:topic("t", { retention_ms = -1, message_timestamp_after_max_ms = "36500d" })
    for i = 1, 10 do topic:append("k", i, { timestamp = 1700000000000 + i * 1000 }) end
    write(COUNT)
    assert.equal("10\t10\n", (run()))
    for from, count in pairs { earliest = 10, latest = 0, ["4"] = 6, ["10"] = 0, ["@1700000003000"] = 8, ["2023-11-14T22:13:25Z"] = 6,
      ["2023-11-15"] = 0, ["1s"] = 0, committed = 0 } do
      assert.equal(count .. "\t" .. (count > 0 and "10" or "nil") .. "\n", (run("--from", from)), from)
      assert.equal("0\tnil\n", (run()))
    end
    local _, complaint, status = run("-q", "--from", "11")
    assert.same({ "sediment run: t-0: offset 11 is not within the log, which has 0 to 10\n", 1 }, { complaint, status })
    for _, bad in ipairs { "yesterday", "-1", "2026-13-01", "1.5", "5 m" } do assert.equal(2, select(3, run("--from", bad)), bad) end
  end)

  it("moves no group that others read for", function()
    fill(3)
    write(COUNT)
    local other = assert(store:consumer { group = "s", topics = { "t" } })
    local _, complaint, status = run("--from", "earliest")
    assert.same({ "sediment run: group 's' has other members now; --from moves it when they have ended\n", 1 }, { complaint, status })
    other:close()
    assert.equal(0, select(3, run("--from", "earliest")))
  end)

  it("has the group that it is told, or none", function()
    fill(3)
    write(COUNT)
    assert.equal("3\t3\n", (run("--group", "g")))
    assert.equal("3\t3\n", (run "--no-commit"))
    assert.same({ "g" }, store:groups())
    write((COUNT:gsub("topics", "group = 'own', topics", 1)))
    assert.equal("3\t3\n", (run()))
    assert.same({ "g", "own" }, store:groups())
    assert.equal(2, select(3, run("--no-commit", "--from", "committed")))
  end)

  it("commits its own partitions when one went to another member meanwhile", function()
    local topic = store:topic("t", { partitions = 2 })
    for i = 1, 10 do topic:append("k", i, { partition = i % 2 }) end
    write [[
      local FAILS = ...
      local n, other, open = 0, nil, nil
      return { topics = { "t" }, init = function(_, store) open = store end, on_record = function(r)
        n = n + 1
        if n == 8 then other = assert(open:consumer { group = "s", topics = { "t" } }) end
        if n == 10 and FAILS then error "no" end
      end, on_done = function() print(n) end }]]
    assert.equal("10\n", (run()))
    assert.same({ 5, nil }, { committed("s", 0), committed("s", 1) })
    assert(store:delete_group "s")
    assert.equal(1, select(3, run "fails"))
    assert.same({ 5, nil }, { committed("s", 0), committed("s", 1) })
  end)

  it("commits every so many, or only at the end", function()
    fill(7)
    local function noted(every)
      write("local n = 0 return { topics = { 't' }, commit_every = " .. every .. [[, on_record = function(r)
        n = n + 1
        if n == 6 then os.execute "kill -9 $PPID" end
      end }]])
      run("--group", "g" .. every)
      return committed("g" .. every)
    end
    assert.equal(3, noted "3")
    assert.equal(5, noted "1")
    assert.is_nil(noted "100")
    assert.is_nil(noted "false")
    write "local n = 0 return { topics = { 't' }, commit_every = false, on_record = function(r) n = n + 1 assert(n < 6) end }"
    assert.equal(1, select(3, run()))
    assert.is_nil(committed())
  end)

  -- ------------------------------------------------------------------------------------------------------------------------- progress

  local function on_terminal(...)
    local command = scripts.sediment_command(directory, "run", "s.lua", "--store", "store", ...)
    return scripts.shell("script -qec " .. scripts.quote(command) .. " /dev/null < /dev/null")
  end

  local has_script = disk.run "script -qec true /dev/null > /dev/null 2>&1 < /dev/null" == 0
  local it_on_terminal = has_script and it or pending

  it_on_terminal("shows on a terminal how far it is, out of the way of what the script prints", function()
    fill(1000)
    write [[return { topics = { "t" }, on_record = function(r) if r.value == "600" then print "half" end end }]]
    local said = on_terminal()
    assert.matches("^\r ..%% %[=* +%] 1 record, [%d,]+/s, [%d.]+ MB/s, lag %d+", said)
    assert.matches("\27%[Khalf\r\n", said)
    assert.matches("\nsediment run: 1,000 records in [%d.]+ s[^\n]*; committed for group s\r\n$", said)
    for line in said:gmatch "\r([^\r\n]*)\27%[K" do assert.is_true(#line < 80, line) end
  end)

  it_on_terminal("shows nothing when it is to be quiet", function()
    fill(10)
    write(COUNT)
    assert.equal("10\t10\r\n", on_terminal "-q")
  end)

  -- ----------------------------------------------------------------------------------------------------------------- bare directories

  describe("over a partition's folder", function()
    local function over(dir, ...) return scripts.sediment(directory, "run", "s.lua", "--partition", dir, ...) end

    it("of a broker gives what the library reads, and changes nothing", function()
      local folder = support.kafka_directory "spanning"
      local before = disk.fingerprint(folder)
      local partition = assert(sediment.open_partition(folder))
      local expected = {}
      for offset, key, value in partition:records() do
        expected[#expected + 1] = ("%d %d %d"):format(offset, #(key or ""), #(value or ""))
      end
      partition:close()
      write [[return { on_record = function(r) print(("%d %d %d"):format(r.offset, #(r.key or ""), #(r.value or ""))) end }]]
      local said, complaint, status = over(folder)
      assert.equal(0, status, complaint)
      assert.equal(table.concat(expected, "\n") .. "\n", said)
      assert.is_true(#expected > 1)
      assert.equal(before, disk.fingerprint(folder))
    end)

    it("knows the topic and the partition by its name, and where to begin", function()
      local topic = store:topic("a-b", { partitions = 3 })
      for i = 1, 4 do topic:append("k", i, { partition = 2 }) end
      topic:flush(2)
      write [[return { on_record = function(r) print(r.topic, r.partition, r.offset, r.value) end }]]
      assert.equal("a-b\t2\t3\t4\n", (over("store/a-b-2/", "--from", "3")))
      assert.equal("", (over("store/a-b-2", "--from", "latest")))
      assert.equal(1, select(3, over("store/a-b-2", "--from", "5")))
      assert.equal(2, select(3, over("store/a-b-2", "--from", "committed")))
      assert.equal(2, select(3, over("store/a-b-2", "--group", "g")))
      assert.equal(1, select(3, over "nowhere"))
      assert.same({}, store:groups())
    end)

    it("ends at what the script fails on", function()
      local topic = fill(2)
      topic:append("k", "x")
      topic:flush()
      write((PICKY:gsub("OTHER", 'dead_letter = "dead",')))
      local _, complaint, status = over("store/t-0", "-q")
      assert.equal(1, status)
      assert.matches("s.lua:5: .*\n  in record t%-0@2, key \"k\"\n$", complaint)
    end)

    it("waits behind what is no record, instead of looking again and again", function()
      local folder = support.kafka_directory "transactions"       -- its last transaction is open
      local from = assert(source.of_partition(folder, {}))
      assert.is_true(#from:read(500, 0) > 0)
      local began = core.monotonic_ms()
      assert.same({}, from:read(500, 30))
      assert.is_true(core.monotonic_ms() - began >= 30)
      from:close()
    end)

    it("follows what is appended", function()
      local topic = fill(1)
      write(of.FOLLOWER)
      local pipe, pid = scripts.start_sediment(directory, "run", "s.lua", "--partition", "store/t-0", "--follow", "-q")
      assert.equal("begun 1", of.lines_until(pipe, "1"))
      topic:append("k", "2", { sync = true })
      assert.equal("2", pipe:read "*l")
      disk.run("kill -TERM " .. pid)
      assert.equal("done status 143", of.lines_until(pipe))
      pipe:close()
    end)
  end)
end)

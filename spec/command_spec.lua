-- The command sediment: its arguments and exit status, and the subcommands that only look.
local sediment = require "sediment"
local of = require "commands"
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"
local text = require "sediment.command.text"

local COMMANDS = { "run", "apply", "topics", "cat", "groups", "policy", "verify", "maintain", "backup" }

describe("the command sediment", function()
  local directory, store

  before_each(function() directory, store = of.begin() end)
  after_each(support.cleanup)

  local function run(...) return scripts.sediment(directory, ...) end

  local function shell(command)
    local said = scripts.shell("cd '" .. directory .. "' && (" .. command .. ") 2>&1; echo \"status $?\"")
    return said:gsub("status %d+\n$", ""), tonumber(said:match "status (%d+)\n$")
  end

  -- ---------------------------------------------------------------------------------------------------------------------- arguments

  it("has help for all of it", function()
    local said, complaint, status = run "--help"
    assert.same({ "", 0 }, { complaint, status })
    for _, name in ipairs(COMMANDS) do
      assert.matches("\n   " .. name .. " +%u", said)
      local more
      more, complaint, status = run(name, "--help")
      assert.same({ "", 0 }, { complaint, status })
      assert.matches("^Usage: sediment " .. name, more)
      assert.matches("%-%-store DIR", more)
      for line in more:gmatch "[^\n]+" do assert.is_true(#line <= 100, line) end
    end
    assert.same({ "sediment " .. sediment._VERSION .. "\n", "", 0 }, { run "--version" })
  end)

  it("refuses what it does not know, with its usage", function()
    local lines = { {}, { "frobnicate" }, { "topics", "--frob" }, { "run" }, { "cat", "t", "--max", "x" }, { "topics", "a", "b" } }
    for _, words in ipairs(lines) do
      local said, complaint, status = run((table.unpack or unpack)(words))
      assert.same({ "", 2 }, { said, status })
      assert.matches("^Usage: sediment", complaint)
      assert.matches("\nError: ", complaint)
    end
  end)

  it("lists, shows, puts and removes policy scripts", function()
    local script = "return { key = function() return 'keep', 2 end }\n"
    disk.write(directory .. "/two.lua", script)
    local function policy(...) return run("policy", "--store", "store", ...) end
    assert.same({ "", "", 0 }, { policy() })
    assert.same({ "", "", 0 }, { policy("two", "two.lua") })
    assert.same({ "script  topics\ntwo\n", "", 0 }, { policy() })
    store:topic("a", { cleanup_policy = "compact", policy_script = "two" })
    store:topic("b", { cleanup_policy = "compact", policy_script = "two" })
    assert.same({ "script  topics\ntwo     a b\n", "", 0 }, { policy() })
    assert.same({ script, "", 0 }, { policy "two" })
    local function fails(part, ...)
      local said, complaint, status = policy(...)
      assert.same("", said)
      assert.truthy(complaint:find(part, 1, true), complaint)
      return status
    end
    assert.equal(1, fails("that of topic 'a'", "two", "--delete"))
    assert.equal(1, fails("there is no policy script 'three'", "three"))
    assert.equal(1, fails("No such file", "three", "three.lua"))
    disk.write(directory .. "/three.lua", "return {")
    assert.equal(1, fails("policy script three:1:", "three", "three.lua"))
    assert.equal(2, fails("--delete: it goes with NAME alone", "--delete"))
    for _, name in ipairs { "a", "b" } do store:topic(name):alter { policy_script = "" } end
    assert.same({ "", "", 0 }, { policy("two", "--delete") })
    assert.same({}, store:policies())
  end)

  it("advises what can be done from a shell, and tells of no line of its own", function()
    local function complains(expected, ...)
      local said, complaint, status = run(...)
      assert.same({ "", 1 }, { said, status })
      assert.truthy(complaint:find(expected, 1, true), complaint)
      assert.falsy(complaint:find("command/", 1, true), complaint)
    end
    complains("there is no topic 'jbos'; `sediment topics` lists those that there are\n", "topics", "jbos", "--store", "store")
    complains("`sediment policy NAME FILE` puts one there\n", "policy", "nope", "--store", "store")
    complains("give another with --store\n", "topics", "--store", "nope")
    complains("lies in the store", "backup", "store/x", "--store", "store")
    assert.matches("missing argument 'DIR'", (select(2, run("backup", "--store", "store"))))
    assert.falsy((run("cat", "--help")):find("latest, committed", 1, true))
  end)

  it("finds its modules and a Lua by itself, also by a link", function()
    scripts.shell(("ln -s '%s/bin/sediment' '%s/link'"):format(scripts.root, directory))
    assert.same({ "sediment " .. sediment._VERSION .. "\n", 0 },
      { shell("unset LUA_PATH LUA_CPATH LUA_PATH_5_4 LUA_CPATH_5_4; SEDIMENT_LUA=" .. disk.lua() .. " ./link --version") })
    local said, status = shell "SEDIMENT_LUA=no-such-lua ./link --version"
    assert.equal(1, status)
    assert.matches("SEDIMENT_LUA", said)
  end)

  it("needs argparse, and the module does not", function()
    local command = scripts.sediment_command(directory, "topics"):gsub("&& exec", "LUA_PATH && export LUA_PATH=nowhere && exec")
    local said, status = shell(command)
    assert.equal("sediment: the command needs the Lua library argparse (Debian: lua-argparse, LuaRocks: argparse)\n", said)
    assert.equal(1, status)
    disk.write(directory .. "/p.lua", "package.preload.argparse = function() error 'loaded' end require 'sediment' print 'there'")
    assert.equal("there\n", (scripts.run(directory, "p.lua")))
  end)

  it("asks for signals, which the module leaves alone", function()
    local function catches(body)                                  -- SIGTERM
      disk.write(directory .. "/p.lua", body .. " print(io.open '/proc/self/status':read '*a':match 'SigCgt:%s*(%x+)')")
      return math.floor(tonumber(scripts.run(directory, "p.lua"):sub(-5), 16) / 2 ^ 14) % 2 == 1
    end
    assert.is_false(catches "store = require 'sediment'.open 'other' store:topic('t', {}):append('k', 'v', { sync = true })")
    assert.is_true(catches "require 'sediment.core'.catch_signals()")
  end)

  it("finds the store by --store, SEDIMENT_STORE, or where it is", function()
    store:topic("t", {})
    assert.matches("\nt ", (run("topics", "--store", "store")))
    local said, complaint, status = run "topics"
    assert.same({ "", 2 }, { said, status })
    assert.equal("sediment topics: which store? Give --store DIR or set SEDIMENT_STORE; the working directory is none\n", complaint)
    assert.matches("\nt ", (scripts.sediment(directory .. "/store", "topics")))
    local command = scripts.sediment_command(directory, "topics"):gsub("&& exec", "&& export SEDIMENT_STORE=store && exec")
    assert.matches("\nt ", (shell(command)))
    said, complaint, status = run("topics", "--store", "nowhere")
    assert.equal("", said)
    assert.equal(1, status)
    assert.matches("there is no store", complaint)
    complaint = select(2, run("topics", "--store", "store/t-0"))
    assert.equal("sediment topics: store/t-0 is a partition's folder, not a store; give it with --partition\n", complaint)
  end)

  -- -------------------------------------------------------------------------------------------------------------------------- topics

  it("lists topics", function()
    assert.same({ "", "", 0 }, { run("topics", "--store", "store") })
    local topic = store:topic("prices", { partitions = 2, cleanup_policy = "compact" })
    for i = 1, 1500 do topic:append("k", "v", { partition = i % 2 }) end
    store:topic("empty", {})
    local said, _, status = run("topics", "--store", "store")
    assert.equal(0, status)
    assert.matches("^topic   partitions  segments  offsets +size  cleanup.policy\n" ..
      "empty            1         1        0 +0 B  delete\nprices           2         2    1,500 +[%d.]+ kB  compact\n$", said)
  end)

  it("describes a topic", function()
    store:topic("t", { partitions = 2, retention_ms = "1d" }):append("k", "v", { partition = 1 })
    local said, _, status = run("topics", "t", "--store", "store")
    assert.equal(0, status)
    assert.matches("^partition  log start  log end  durable  segments  size  dirty\n", said)
    assert.matches("\n        1          0        1 ", said)
    assert.matches("\nretention.ms +86400000 +topic\n", said)
    assert.matches("\nflush.ms +9223372036854775807 +default\n", said)
    assert.equal(1, select(3, run("topics", "none", "--store", "store")))
  end)

  -- ----------------------------------------------------------------------------------------------------------------------------- cat

  local function cat(...) return run("cat", "--store", "store", ...) end

  it("prints records", function()
    local topic = store:topic("t", {})
    topic:append("a", "b\tc\n\27[31m\\", { timestamp = 1700000000123 })
    topic:append(nil, nil, { timestamp = -1 })
    topic:append("", "é", { timestamp = 1700000000000 })
    assert.same({ "0\t0\t2023-11-14T22:13:20.123Z\ta\tb\\tc\\n\\x1b[31m\\\\\n0\t1\t-\tnull\tnull\n" ..
      "0\t2\t2023-11-14T22:13:20.000Z\t\té\n", "", 0 }, { cat "t" })
    assert.equal(1, select(2, cat("t", "--max", "1"):gsub("\n", "")))
    assert.equal("", (cat("t", "--max", "0")))
    assert.matches("^0\t2\t", (cat("t", "--from", "2")))
    assert.equal("", (cat("t", "--from", "latest")))
    assert.equal(1, select(3, cat("t", "--from", "4")))
    assert.equal(2, select(3, cat("t", "--from", "committed")))
    for from, why in pairs {
      ["2023-02-31"] = "there is no day 2023-02-31", ["2023-11-14T24:61"] = "there is no time of day 24:61",
      tomorrow = "'tomorrow' is no place", ["99999999999999d"] = "'99999999999999d' is no place",
      ["2023-11-14T10"] = "'2023-11-14T10' is no place",
    } do
      local said, complaint, status = cat("t", "--from", from)
      assert.same({ "", 2 }, { said, status })
      assert.is_truthy(complaint:find(why, 1, true), complaint)
    end
    assert.equal(2, select(3, cat()))
    assert.equal(1, select(3, cat "none"))
    assert.same({}, store:groups())
  end)

  it("escapes what is no text, and what a terminal would obey", function()
    local topic = store:topic("t", {})
    topic:append("\194\155\127", "\255a\195\169\128")
    assert.matches("\t\\xc2\\x9b\\x7f\t\\xffa\195\169\\x80\n$", (cat "t"))
    assert.matches('"key":"\\u009b\\u007f","value_base64":"/2HDqYA="', (cat("t", "--json")))
  end)

  it("prints them as JSON", function()
    local topic = store:topic("t", { partitions = 2 })
    topic:append('"\\\n', "\0\1é€😀\127", { timestamp = 1700000000123, partition = 1, headers = { { "h", "x" }, { "n" } } })
    topic:append("\255", nil, { timestamp = 5, partition = 1 })
    assert.same({
      '{"topic":"t","partition":1,"offset":0,"timestamp":1700000000123,"key":"\\"\\\\\\u000a","value":"\\u0000\\u0001é€😀\\u007f",' ..
      '"headers":[{"name":"h","value":"x"},{"name":"n","value":null}]}\n' ..
      '{"topic":"t","partition":1,"offset":1,"timestamp":5,"key_base64":"/w==","value":null}\n', "", 0 }, { cat("t", "--json") })
  end)

  it("prints every record of a topic and of a partition's folder", function()
    local topic = store:topic("t", { partitions = 3 })
    for i = 1, 2000 do topic:append("k" .. i, i) end
    topic:flush(1)
    local seen, count = {}, 0
    for value in cat "t":gmatch "\t(%d+)\n" do
      count, seen[value] = seen[value] and count or count + 1, true
    end
    assert.equal(2000, count)
    local own = select(2, run("cat", "--partition", "store/t-1"):gsub("\n", ""))
    assert.equal(topic:latest(1), own)
  end)

  it("leaves aborted transactions out, or shows them", function()
    local folder = support.kafka_directory "transactions"
    local function lines(...) return select(2, run("cat", "--partition", folder, ...):gsub("\n", "")) end
    local data = scripts.root .. "/spec/data/kafka/transactions"
    local function expected(name) return select(2, disk.read(data .. name):gsub("\tdata\t", "")) end
    assert.is_true(expected ".committed.tsv" < expected ".tsv")
    assert.equal(expected ".committed.tsv", lines())
    assert.equal(expected ".tsv", lines "--uncommitted")
  end)

  it("follows, until a signal comes", function()
    local topic = store:topic("t", {})
    topic:append("k", "1")
    local pipe, pid = scripts.start_sediment(directory, "cat", "t", "--store", "store", "--follow")
    assert.matches("\t1$", pipe:read "*l")
    topic:append("k", "2")
    assert.matches("\t2$", pipe:read "*l")
    disk.run("kill -INT " .. pid)
    assert.equal("status 130", pipe:read "*l")
    pipe:close()
  end)

  it("ends without a word when nobody reads any more", function()
    local topic = store:topic("t", {})
    for i = 1, 20000 do topic:append("k", i) end
    local command = "(" .. scripts.sediment_command(directory, "cat", "t", "--store", "store") .. ") | head -n 1"
    local said, status = shell(command)
    assert.matches("^0\t0\t[^\n]*\tk\t1\n$", said)
    assert.equal(0, status)
  end)

  it("fails at damage, or tells of it and goes on", function()
    support.damaged()
    local topic = store:topic("t", {})
    for i = 1, 3 do topic:append_batch { { key = "k", value = "value " .. i } } end
    topic:roll()
    topic:append("k", "last")
    store:close()
    local log = directory .. "/store/t-0/" .. disk.log(0)
    disk.write(log, (disk.read(log):gsub("value 2", "value X")))
    for _, words in ipairs { { "t", "--store", "store" }, { "--partition", "store/t-0" } } do
      local first, second = (table.unpack or unpack)(words)
      local third = words[3]
      local said, complaint, status = run("cat", first, second, third)
      assert.equal(1, status)
      assert.matches("^[^\n]*value 1\n$", said)
      assert.matches("fails its CRC", complaint)
      said, complaint, status = run("cat", "--skip-corrupt", first, second, third)
      assert.equal(0, status)
      assert.matches("value 1\n[^\n]*value 3\n[^\n]*last\n$", said)
      assert.matches("^sediment cat: t%-0: offsets 1 to 1 are left out: ", complaint)
    end
    local said, _, status = run("verify", "--store", "store")
    assert.equal(1, status)
    assert.matches("^data: .*00000.log, byte %d+, offset 1: .* %(corrupt%)\n", said)
    assert.matches("\n[%d,]+ records in 2 segments of 1 partition, .*: 1 problem\n$", said)
    assert.equal(1, select(3, run("verify", "--partition", "store/t-0")))
    assert.equal(0, select(3, run("topics", "--store", "store")))
  end)

  -- ------------------------------------------------------------------------------------------------------ groups, verify, maintain, backup

  it("lists, describes and deletes groups", function()
    assert.same({ "", "", 0 }, { run("groups", "--store", "store") })
    local topic = store:topic("t", { partitions = 2 })
    for i = 1, 10 do topic:append("k", i, { partition = i % 2 }) end
    local consumer = store:consumer { group = "g", topics = { "t" } }
    consumer:commit { t = { [0] = { offset = 2, metadata = "m" }, [1] = 5 } }
    assert.same({ "group  members  lag\ng            1    3\n", "", 0 }, { run("groups", "--store", "store") })
    local said, _, status = run("groups", "g", "--store", "store")
    assert.equal(0, status)
    assert.equal("1 member\n" ..
      "topic  partition  committed  log end  lag  at                        metadata\n" ..
      "t              0          2        5    3  2023-11-14T22:13:20.000Z  m\n" ..
      "t              1          5        5    0  2023-11-14T22:13:20.000Z\n", said)
    local _, complaint, busy = run("groups", "g", "--delete", "--store", "store")
    assert.equal(1, busy)
    assert.matches("1 members", complaint)
    consumer:close()
    assert.same({ "", "", 0 }, { run("groups", "g", "--delete", "--store", "store") })
    assert.equal(1, select(3, run("groups", "g", "--store", "store")))
    assert.equal(2, select(3, run("groups", "--delete", "--store", "store")))
  end)

  it("obeys no name, metadata or path that it tells of", function()
    local wild, shown = "\27[2J\r\255\\", "\\x1b[2J\\r\\xff"
    store:topic("t", {}):append("k", "v")
    store:consumer({ group = wild .. "\n", topics = { "t" } }):commit { t = { [0] = { offset = 1, metadata = wild } } }
    local function is_shown(said, what)
      assert.is_truthy(said:find(what, 1, true), said)
      assert.is_nil(said:find "[\27\r\255]", said)
    end
    is_shown((run("groups", "--store", "store")), "\n" .. shown .. "\\\\\\n        1    0\n")
    is_shown((run("groups", wild .. "\n", "--store", "store")), "  " .. shown .. "\\\\\n")
    for _, words in ipairs { { "groups", wild, "--store", "store" }, { "topics", "--store", wild }, { "cat", wild, "--store", "store" },
                             { "cat", "--partition", wild }, { "verify", wild, "--store", "store" }, { wild }, { "cat", "--from", wild },
                             { "run", wild }, { "apply", wild, "--store", "store" }, { "backup", wild .. "/a/b", "--store", "store" } } do
      is_shown(select(2, run((table.unpack or unpack)(words))), shown .. "\\")
    end
  end)

  it("verifies a store, and changes nothing", function()
    local topic = store:topic("t", {})
    for i = 1, 10 do topic:append("k", i) end
    store:close()
    local before = disk.fingerprint(directory .. "/store", "sediment.lock")
    local said, complaint, status = run("verify", "--store", "store")
    assert.same({ "", 0 }, { complaint, status })
    assert.matches("^10 records in 1 segment of 1 partition, [%d.]+ k?B: whole\n$", said)
    assert.equal(0, select(3, run("verify", "t", "--store", "store")))
    assert.equal(1, select(3, run("verify", "none", "--store", "store")))
    assert.equal(before, disk.fingerprint(directory .. "/store", "sediment.lock"))
  end)

  it("maintains a store", function()
    local topic = store:topic("t", { retention_ms = 1000, segment_ms = 1, file_delete_delay_ms = 0 })
    for i = 1, 3 do topic:append("k", i, { timestamp = 1700000000000 + i * 1000 }) end
    store:close()
    local said, complaint, status = run("maintain", "--store", "store")
    assert.same({ "", 0 }, { complaint, status })
    assert.matches("segments? rolled, [23] segments deleted", said)
    store = support.open(directory .. "/store")
    assert.equal(3, store:topic("t"):earliest())
  end)

  it("backs a store up", function()
    store:topic("t", {}):append("k", "v")
    assert.same({ "", "", 0 }, { run("backup", "copy", "--store", "store") })
    assert.matches("\tk\tv\n$", (run("cat", "t", "--store", "copy")))
    local _, complaint, status = run("backup", "copy", "--store", "store")
    assert.equal(1, status)
    assert.matches("^sediment backup: ", complaint)
  end)
end)

describe("the command's texts", function()
  it("read times", function()
    for s, ms in pairs {
      ["1970-01-01"] = 0, ["2000-02-29"] = 951782400000, ["2023-11-14T22:13:20"] = 1700000000000,
      ["2023-11-14 22:13:20.123"] = 1700000000123,
      ["2023-11-14T22:13:20Z"] = 1700000000000, ["2023-11-15T00:13:20+02:00"] = 1700000000000, ["2023-11-14T14:13-0800"] = 1699999980000,
      ["1969-12-31T23:59:59Z"] = -1000, ["2024-02-29"] = 1709164800000, ["2024-12-31T24:00"] = 1735689600000,
      ["2024-12-31T24:00:00.0-00:30"] = 1735691400000,
    } do assert.same({ ms }, { text.parse_time(s) }, s) end
    for _, s in ipairs { "2023", "2023-1-1", "2023-11-14T", "2023-11-14x", "x2023-11-14", "2023-11-14T1:00", "2023-11-14T10:00:1" } do
      assert.same({}, { text.parse_time(s) }, s)
    end
  end)

  it("tell which part of a time there is not", function()
    for _, case in ipairs {
      { "2023-02-31", "day 2023-02-31" }, { "2023-02-29", "day 2023-02-29" }, { "1900-02-29", "day 1900-02-29" },
      { "2023-04-31T10:00", "day 2023-04-31" }, { "2023-13-01", "day 2023-13-01" }, { "2023-00-01", "day 2023-00-01" },
      { "2023-01-00", "day 2023-01-00" }, { "2023-12-32", "day 2023-12-32" }, { "2023-11-14T25:00", "time of day 25:00" },
      { "2023-11-14T24:61", "time of day 24:61" }, { "2023-11-14T24:01", "time of day 24:01" }, { "2023-11-14 22:61", "time of day 22:61" },
      { "2023-11-14T24:00:00.5Z", "time of day 24:00:00.5" }, { "2023-11-14T10:00:60", "time of day 10:00:60" },
      { "2023-11-14T10:00+02:60", "zone +02:60" }, { "2023-11-14T10:00-2400", "zone -2400" },
    } do assert.same({ nil, ("'%s' is no time: there is no %s"):format(case[1], case[2]) }, { text.parse_time(case[1]) }) end
  end)

  it("show numbers and durations", function()
    assert.same({ "0", "999", "1,000", "1,234,567", "-123,456" },
      { text.grouped(0), text.grouped(999), text.grouped(1000), text.grouped(1234567), text.grouped(-123456) })
    assert.same({ "1 topic", "0 topics", "2 topics" }, { text.count(1, "topic"), text.count(0, "topic"), text.count(2, "topic") })
    assert.same({ "0 B", "999 B", "1.0 kB", "1.5 MB" }, { text.size(0), text.size(999), text.size(1000), text.size(1500000) })
    assert.same({ "1 s", "59 s", "2 min 5 s", "3 h 20 min" },
      { text.duration(0.1), text.duration(59), text.duration(125), text.duration(12000) })
  end)

  it("know UTF-8 from other bytes", function()
    for _, s in ipairs { "", "a", "é", "€", "😀", "\0", "\237\159\191", "\244\143\191\191" } do
      assert.matches('^"k":"', text.json_member("k", s))
    end
    for _, s in ipairs { "\128", "\192\128", "\195", "\224\128\128", "\237\160\128", "\244\144\128\128", "\255", "\195a\169",
                         "\226\130" } do
      assert.matches('^"k_base64":"', text.json_member("k", s))
    end
    assert.same({ '"k_base64":"/w=="', '"k_base64":"//8="', '"k_base64":"////"', '"k_base64":"////AA=="' },
      { text.json_member("k", "\255"), text.json_member("k", "\255\255"), text.json_member("k", "\255\255\255"),
        text.json_member("k", "\255\255\255\0") })
  end)
end)

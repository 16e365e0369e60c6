-- The documentation against the code: configs, options, the bytes of the worked examples, the tests that are named.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"

-- Rows of the tables whose first cell is `name`: { name, default, range } each, by section title.
local function tables()
  local sections, rows = {}, {}
  for line in disk.read(scripts.root .. "/docs/configs.md"):gmatch "[^\n]+" do
    local title = line:match "^## (.+)$"
    if title then
      rows = {}
      sections[title] = rows
    end
    local name, default, range = line:match "^| `([^`]+)` | `([^`]*)` | ([^|]+) |"
    if name then table.insert(rows, { name = name, default = default, range = range }) end
  end
  return sections
end

-- "a to b" as text: bounds beyond 2^53 stay exact.
local function bounds(range) return range:match "^(%-?[%d.e]+) to (%-?[%d.e]+)" end

describe("docs/configs.md", function()
  local sections = tables()
  local configs, options = sections["Topic configs"], sections["Store options"]

  after_each(support.cleanup)

  it("lists every topic config with its default", function()
    local described, listed = support.topic({}):describe(), {}
    for _, row in ipairs(configs) do
      local value = assert(described[row.name], row.name .. " is no config").value
      if type(value) == "number" then assert.equal(tonumber(row.default), value, row.name)
      else assert.equal(row.default, tostring(value), row.name) end
      listed[row.name] = true
    end
    for name in pairs(described) do assert.is_true(listed[name], name .. " is not in docs/configs.md") end
  end)

  local function below(low) return ("%.0f"):format(tonumber(low) - 1) end
  local function above(high) return ("%.0f"):format(tonumber(high) + 1) end
  local FOREVER = "9223372036854775807"

  it("gives the ranges that topic configs have", function()
    local topic = support.topic {}
    for _, row in ipairs(configs) do
      local low, high = bounds(row.range)
      if low then
        assert(topic:alter({ [row.name] = low }))
        assert(topic:alter({ [row.name] = high }))
        support.raised(topic.alter, topic, { [row.name] = below(low) })
        if high ~= FOREVER then support.raised(topic.alter, topic, { [row.name] = above(high) }) end
        assert(topic:alter({}, { row.name }))
      end
    end
  end)

  it("lists every store option with its default", function()
    local source = disk.read(scripts.root .. "/csrc/store/options.c")
    local names = { SDM_STAGE_BYTES = "65536", FLUSH_SCHEDULER_MAX_MS = "60000", DBL_MAX = "1.7976931348623157e308" }
    local found, n = {}, 0
    for kind, name, initial in source:gmatch '(%u+)%("([%l.]+)", [%w_]+, ([%w_.]+),' do found[name], n = kind and initial, n + 1 end
    for name, initial in source:gmatch '"([%l.]+)", SDM_RULE_%u+, SDM_UNIT_NONE, (%d+),' do found[name], n = initial, n + 1 end
    assert.equal(n, #options)
    for _, row in ipairs(options) do
      local initial = assert(found[row.name], row.name .. " is no option")
      local default = row.default == "true" and "1" or row.default
      assert.equal(tonumber(names[initial] or initial), tonumber(default), row.name)
    end
  end)

  it("gives the ranges that store options have", function()
    local path = support.path()
    for _, row in ipairs(options) do
      local low, high = bounds(row.range)
      if low then
        support.open(path, { options = { [row.name] = low } })
        support.open(path, { options = { [row.name] = high } })
        support.raised(sediment.open, path, { options = { [row.name] = below(low) } })
        support.cleanup()
        path = support.path()
      end
    end
  end)
end)

describe("docs/format.md", function()
  local golden = {}
  for name, body in disk.read(scripts.root .. "/docs/format.md"):gmatch "```golden (%u)\n(.-)```" do
    local bytes = {}
    for line in body:gmatch "[^\n]+" do
      local hex = line:match "^([%x ]-)%s%s" or line
      for pair in hex:gmatch "%x%x" do bytes[#bytes + 1] = string.char(tonumber(pair, 16)) end
    end
    golden[name] = table.concat(bytes)
  end

  local T = 1700000000000

  local function read(name)
    local path = support.path()
    local folder = path .. "-0"
    scripts.shell("mkdir '" .. folder .. "'")
    disk.write(folder .. "/00000000000000000000.log", golden[name])
    local partition = assert(sediment.open_partition(folder))
    local records = support.collect(partition:records())
    assert.equal(3, partition:latest())
    partition:close()
    return records
  end

  after_each(support.cleanup)

  it("has the sizes it tells", function()
    assert.equal(92, #golden.A)
    assert.equal(88, #golden.B)
    assert.equal(61, #golden.C)
    assert.equal(23, #golden.D)
  end)

  it("shows an entry of a snapshot as it is written", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", {}):append("k", "v")
    local state = store:table("t", { snapshot = true, decode = function() return { "a", 24, x = 0.5 } end })
    assert(state:snapshot())
    local bytes = disk.read(path .. "/" .. disk.list(path, "sediment.table-")[1])
    assert.truthy(bytes:find(golden.D, 1, true))
    assert.equal(44 + #"decoded " + 24 + #golden.D + 8 * 2 + 16, #bytes)
  end)

  it("has batches that read as it tells", function()
    local HEADERS = { { "h" }, { "", "x" } }
    local kept = {
      { offset = 1, key = "", value = "", timestamp = T + 1 },
      { offset = 2, key = "k", timestamp = T - 5, headers = HEADERS },
    }
    assert.same({ { offset = 0, key = "k", value = "v1", timestamp = T }, kept[1], kept[2] }, read "A")
    assert.same(kept, read "B")
    assert.same({}, read "C")
  end)

  it("has the bytes that the tests have", function()
    local hex = disk.read(scripts.root .. "/spec/c/golden.h")
    for name, text in pairs(golden) do
      local literal = hex:match("define GOLDEN_" .. name .. "(.-)\n[#\n]")
      local expected = literal:gsub("[^%x]", "")
      assert.equal(expected, (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
    end
  end)

  it("has examples of our files whose checksums hold", function()
    local text = disk.read(scripts.root .. "/docs/format.md"):match "```\n(sediment%-topics 1\n.-)```"
    local path = support.path()
    scripts.shell("mkdir '" .. path .. "'")
    disk.write(path .. "/sediment.topics", text)
    local store = support.open(path)
    assert.same({ "latest", "readings" }, store:topics())
    assert.equal(3600000, assert(store:topic "latest"):config()["delete.retention.ms"])
  end)
end)

describe("docs/state-tables.md", function()
  after_each(support.cleanup)

  it("has an example that does what it says", function()
    local text = disk.read(scripts.root .. "/docs/state-tables.md"):match "```lua\n(.-)```"
    local path, said = support.path(), {}
    local plain_print = print
    finally(function() rawset(_G, "print", plain_print) end)
    rawset(_G, "print", function(...) said[#said + 1] = table.concat({ ... }, " ") end)
    assert((rawget(_G, "loadstring") or load)((text:gsub("user%-store", path))))()
    table.sort(said)
    assert.same({ "Ana 2 2", "u1 Ana", "u3 Rui" }, said)
    local store = support.open(path)
    assert.equal(1, #disk.list(path, "sediment.table-"))
    store:close()
  end)
end)

describe("docs/policies.md", function()
  after_each(support.cleanup)

  -- The blocks of Lua, in order, what the console shows of the second, and the commands that follow with what they say.
  local function blocks()
    local list, text = {}, disk.read(scripts.root .. "/docs/policies.md")
    for block in text:gmatch "```lua\n(.-)```" do list[#list + 1] = block end
    return list, text:match "```console\n%$ lua5.4 policy.lua\n(.-)```", text:match "```console\n(%$ echo .-)```"
  end

  it("has an example that does what it says", function()
    local list, shown, commands = blocks()
    local folder = support.foreign()
    disk.write(folder .. "/sessions.lua", list[1])
    disk.write(folder .. "/policy.lua", list[2])
    assert.equal(shown, scripts.shell(("cd '%s' && %s policy.lua 2>&1"):format(folder, disk.lua())))
    local said = {}
    for command in commands:gmatch "%$ ([^\n]+)\n" do
      local inside = ("cd '%s' && PATH='%s/bin:'$PATH && (%s) 2>&1"):format(folder, scripts.root, command)
      said[#said + 1] = "$ " .. command .. "\n" .. scripts.shell(inside)
    end
    assert.equal(commands, table.concat(said))
  end)

  it("has scripts that hold and delete as it says", function()
    local list = blocks()
    assert.equal(4, #list)
    local store = support.open()
    assert(store:policy("hold", list[3]))
    assert(store:policy("twelve", list[4]))
    local kept = store:topic("kept", { policy_script = "hold", retention_ms = 1000 })
    local counted = store:topic("counted", { policy_script = "twelve" })
    for month = 0, 14 do
      local timestamp = 1733011200000 + month * 2629800000            -- from December 2024 on
      support.now = timestamp
      for _, topic in ipairs { kept, counted } do
        topic:append("k", tostring(month))
        topic:roll()
      end
    end
    support.now = support.now + 86400000
    assert.equal(2, kept:retain().segments)
    assert.equal(3, counted:retain().segments)
    assert.equal(0, counted:retain().segments)
  end)
end)

describe("docs/field-failures-covered.md", function()
  local NUMBERS = "2 4 5 9 10 11 12 13 15 16 17 18 19 20 21 22 23 24 25 26 29 32 33 34 35 36 37 38 39 40 41 43 44 45 46 47 "
    .. "50 51 52 54 55 56 57 59 60 61 62 63 64 65 66 67 68 69 70"
  local root = scripts.root .. "/"

  -- The rows of its tables: { number, what covers it } each.
  local function rows()
    local list = {}
    for line in disk.read(root .. "docs/field-failures-covered.md"):gmatch "[^\n]+" do
      local number, covered = line:match "^| (%d+) | [^|]+ | [^|]+ | ([^|]+) |$"
      if number then list[#list + 1] = { number, covered } end
      assert(number or not line:find "^| %d", "a row that is none: " .. line)
    end
    return list
  end

  -- Whether the file has the test: in a spec's name what is added to it may follow.
  local function has_test(file, name)
    local text = disk.read(root .. file)
    return text:find((file:find "%.lua$" and 'it("%s"' or "TEST(%s)"):format(name), 1, true) ~= nil
  end

  -- How many tests a cell names: a file, then those in it. One of the simulations, which has no named tests, counts as well.
  local function count_tests(covered)
    local file, named, count = "the cell", true, 0
    for mark, text in covered:gmatch '([`"])([^`"]+)%1' do
      if mark == '"' then
        assert(file:find "^spec/" and has_test(file, text), file .. " has no test " .. text)
        named, count = true, count + 1
      elseif text:find "^spec/" then
        assert(named, file .. " is named without a test")
        assert(disk.exists(root .. text), text .. " is missing")
        file, named = text, text:find "^spec/sim/" ~= nil
      end
    end
    assert(named, file .. " is named without a test")
    return count
  end

  it("has each of the 55 numbers once, in order", function()
    local list = {}
    for i, row in ipairs(rows()) do list[i] = row[1] end
    assert.equal(55, #list)
    assert.equal(NUMBERS, table.concat(list, " "))
  end)

  it("names tests that exist, or says why a failure is impossible", function()
    for _, row in ipairs(rows()) do
      assert(count_tests(row[2]) > 0 or row[2]:find "^impossible: ", row[1] .. " is not covered")
    end
  end)

  it("names every test of the specs that were written for it", function()
    local document = disk.read(root .. "docs/field-failures-covered.md")
    for _, spec in ipairs(disk.list(root .. "spec", "field_")) do
      for name in disk.read(root .. "spec/" .. spec):gmatch ' it%("([^"]+)"' do
        assert(document:find('"' .. name .. '"', 1, true), spec .. ": " .. name .. " is not in the list")
      end
    end
  end)
end)

describe("docs/scripts.md", function()
  local root = scripts.root .. "/"

  -- Seconds and today's times differ from run to run.
  local function steady(said)
    return (said:gsub(" in %d+%.%d s", " in N s"):gsub("20[2-9]%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ", function(time)
      if not time:find "^2023" then return "NOW" end
    end))
  end

  local function perform(directory, line)
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    if words[1] == "sediment" then
      local said, complaint = scripts.sediment(directory, (table.unpack or unpack)(words, 2))
      return said .. complaint
    end
    if words[1] == "lua5.4" then return (scripts.run(directory, words[2])) end
    return scripts.shell("cd '" .. directory .. "' && " .. line .. " 2>&1")
  end

  -- The lines of a session: { command, what it says }.
  local function session(body)
    local list = {}
    for line in body:gmatch "[^\n]+" do
      local command = line:match "^%$ (.*)"
      if command then list[#list + 1] = { command, "" } else list[#list][2] = list[#list][2] .. line .. "\n" end
    end
    return list
  end

  it("has programs that print what it says", function()
    local directory, count = scripts.directory(), 0
    for kind, body in disk.read(root .. "docs/scripts.md"):gmatch "```(%l+)\n(.-)```" do
      local name = body:match "^%-%- (%S+%.lua)\n"
      if name then disk.write(directory .. "/" .. name, body) end
      assert(name or kind == "console", "a block that is neither a file nor a session")
      for _, said in ipairs(kind == "console" and session(body) or {}) do
        assert.equal(steady(said[2]), steady(perform(directory, said[1])), said[1])
        count = count + 1
      end
    end
    scripts.remove(directory)
    assert.equal(15, count)
  end)

  it("names every field of a script, and every command", function()
    local text = disk.read(root .. "docs/scripts.md")
    local fields = disk.read(root .. "lua/sediment/command/script.lua"):match "local FIELDS = (%b{})"
    local n = 0
    for name in fields:gmatch "([%l_]+) = \"" do
      assert(text:find("| `" .. name .. "[ `]"), name .. " is not in docs/scripts.md")
      n = n + 1
    end
    assert.equal(11, n)
    local commands = disk.read(root .. "lua/sediment/command/init.lua"):match "COMMANDS = (%b{})"
    for name in commands:gmatch '"(%l+)"' do assert(text:find("`sediment " .. name, 1, true), name .. " is not in docs/scripts.md") end
  end)
end)

-- The command, and an example, over --store.
local contract = require "contract.store"
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"

local directory

before_each(function() directory = support.foreign():gsub("/$", "") end)

local function write(text) disk.write(directory .. "/s.lua", text) end
local function sediment(command, ...) return scripts.sediment(directory, command, ...) end
local function run(...) return sediment("run", "s.lua", "--store", contract.location(), ...) end

local COUNT = [[
return {
  topics = { "TOPIC" }, group = "GROUP",
  init = function(state) state.n = 0 end,
  on_record = function(record, state) state.n = state.n + 1 state.last = record.value end,
  on_done = function(state) print(state.n, state.last) end,
}]]

local function filled(partitions)
  local topic, store, name = contract.topic { partitions = partitions }
  for i = 1, 5 do topic:append("k" .. i % 2, tostring(i), { partition = i % (partitions or 1), timestamp = 1700000000000 + i }) end
  return topic, store, name
end

it("run gives every record to a script once, and goes on where it was", function()
  local topic, _, name = filled(2)
  write((COUNT:gsub("TOPIC", name):gsub("GROUP", contract.fresh "g")))
  local said, complaint, status = run()
  assert.same({ "5", 0 }, { said:match "^%d+", status }, complaint)
  assert.matches("^sediment run: 5 records in %d+%.%d s; committed for group ", complaint)
  topic:append("k", "6")
  assert.equal("1\t6\n", (run()))
  assert.equal("0\tnil\n", (run()))
end)

it("run ends at a record that the script fails on, or puts it aside", function()
  local topic, store, name = filled()
  local dead, group = contract.fresh "dead", contract.fresh "g"
  topic:append("k", "six")
  write(('return { topics = { "%s", ["%s"] = {} }, group = "%s", OTHER on_record = function(r) return r.value + 1 end }')
    :format(name, dead, group))
  local picky = disk.read(directory .. "/s.lua")
  write((picky:gsub("OTHER", "")))
  for _ = 1, 2 do
    local _, complaint, status = run "-q"
    assert.equal(1, status)
    assert.matches("in record " .. name .. "-0@5, key \"k\"\n  what came before is committed", complaint, 1, true)
  end
  write((picky:gsub("OTHER", ('dead_letter = "%s",'):format(dead))))
  local _, complaint, status = run()
  assert.equal(0, status, complaint)
  assert.matches("1 put aside in " .. dead, complaint, 1, true)
  assert.equal("k=six", support.words(assert(store:topic(dead)):records()))
end)

it("run keeps a state for each key, with changes of its own", function()
  local _, store, name = filled()
  local out = contract.fresh "out"
  write(([[
    local out
    return { topics = { "%s", ["%s"] = { cleanup_policy = "compact" } }, from = { "%s" }, group = "%s",
      key = function(r) return r.key end,
      init = function(state, store) out, state.n = store:topic "%s", 0 end,
      on_record = function(r, state) state.n = state.n + 1; assert(out:append(r.key, state.n)) end,
      on_done = function(states) print(states.k0.n, states.k1.n) end }]]):format(name, out, name, contract.fresh "g", out))
  local said, complaint = run()
  assert.equal("2\t3\n", said, complaint)
  assert.equal("k0=2 k1=3", require("state").contents(assert(store:table(out))))
end)

it("apply shows what differs and makes it so", function()
  local name = contract.fresh "prices"
  local store = contract.open()
  local function apply(...) return sediment("apply", "s.lua", "--store", contract.location(), ...) end
  write(('return { ["%s"] = { partitions = 3, cleanup_policy = "compact", retention_ms = "7d" } }'):format(name))
  local said, complaint, status = apply "--dry-run"
  assert.same({ "", 0 }, { complaint, status })
  assert.matches("+ " .. name .. ": 3 partitions, cleanup.policy compact, retention.ms 604800000\n", said, 1, true)
  assert.matches("1 topic to be made\n", said, 1, true)
  assert.is_nil((store:topic(name)))
  assert.matches("1 topic made\n", (apply()), 1, true)
  assert.matches("nothing to change\n", (apply()), 1, true)
  write(('return { ["%s"] = { partitions = 4, cleanup_policy = "compact", retention_ms = "1d" } }'):format(name))
  said = apply()
  assert.matches("~ " .. name .. ": partitions 3 -> 4\n", said, 1, true)
  assert.matches("~ " .. name .. ": retention.ms 604800000 (topic) -> 86400000\n", said, 1, true)
  local topic = assert(store:topic(name))
  assert.same({ 4, 86400000 }, { topic:partitions(), topic:config()["retention.ms"] })
end)

it("cat prints records", function()
  local _, _, name = filled()
  local plain, complaint, status = sediment("cat", name, "--store", contract.location())
  assert.same({ "", 0 }, { complaint, status })
  local lines = {}
  for line in plain:gmatch "[^\n]+" do lines[#lines + 1] = line end
  assert.equal(5, #lines)
  local from = sediment("cat", name, "--store", contract.location(), "--from", "3", "--json")
  assert.equal(2, select(2, from:gsub("\n", "")))
  assert.matches('"value":"4"', from, 1, true)
end)

it("topics and groups tell what there is", function()
  local _, store, name = filled(2)
  local group = contract.fresh "g"
  local consumer = assert(store:consumer { topics = { name }, group = group })
  contract.drain(consumer)
  assert(consumer:commit())
  consumer:close()
  local said, complaint, status = sediment("topics", "--store", contract.location())
  assert.same({ "", 0 }, { complaint, status })
  assert.matches(name, said, 1, true)
  said, complaint, status = sediment("groups", "--store", contract.location())
  assert.same({ "", 0 }, { complaint, status })
  assert.matches(group, said, 1, true)
end)

it("says that a topic is not there", function()
  contract.topic()
  local name = contract.fresh()
  local _, complaint, status = sediment("cat", name, "--store", contract.location())
  assert.equal(1, status)
  assert.matches(name, complaint, 1, true)
end)

it("and examples/rates.lua rebuild the same state", function()
  contract.claim "rates"
  local script, csv = scripts.root .. "/examples/rates.lua", directory .. "/rates.csv"
  scripts.shell(("gzip -dc '%s/examples/data/eurofxref-hist.csv.gz' | head -n 40 > '%s'"):format(scripts.root, csv))
  local function state_of(...)
    local said, status = scripts.run(directory, script, ...)
    assert.equal(0, status, said)
    return assert(said:match "\n(one euro, 29 currencies\n.*)\ntime: ", said), said
  end
  local expected = state_of(directory .. "/folder", csv)
  local first, said = state_of("--store", contract.location(), csv)
  assert.equal(expected, first)
  assert.matches("new store: " .. contract.location(), said, 1, true)
  assert.matches("\n39 new days: 1,1%d%d rates and 0 tombstones appended\n", said)
  local second
  second, said = state_of("--store", contract.location(), csv)
  assert.equal(expected, second)
  assert.matches("found store: " .. contract.location() .. ": 29 currencies up to 2026-10-30\n", said, 1, true)
end)

-- Several processes on one store at once: offsets are unique and dense, each process's records stay in order, and all see the same.
local support = require "support"
local disk = require "disk"

local COMMON = [[
local sediment = require "sediment"
local path, me, count = arg[1], arg[2], tonumber(arg[3])
io.stdout:setvbuf "line"
local function open() return assert(sediment.open(path, { background = false, clock = function() return 1700000000000 end })) end
]]

local WRITER = COMMON .. [[
local topic = assert(open():topic("t", { segment_bytes = 20000 }))
local i = 0
while i < count do
  if i % 7 == 3 then
    local first, last = assert(topic:append_batch { { key = me, value = tostring(i) }, { key = me, value = tostring(i + 1) } })
    assert(last == first + 1)
    print(first .. " " .. me .. " " .. i .. "\n" .. last .. " " .. me .. " " .. i + 1)
    i = i + 2
  else
    print(assert(topic:append(me, tostring(i))) .. " " .. me .. " " .. i)
    i = i + 1
  end
  if i % 211 == 0 then assert(topic:roll()) end
end
]]

-- Begins to die after `count` records and goes on appending until it is dead.
local DYING = COMMON .. [[
io.stdout:setvbuf "no"
local topic = assert(open():topic("t", { segment_bytes = 20000 }))
for i = 0, 10 ^ 6 do
  if i == count then os.execute "kill -9 $PPID &" end
  io.write(assert(topic:append(me, tostring(i))) .. " " .. me .. " " .. i .. "\n")
  if i % 50 == 49 then assert(topic:roll()) end
end
]]

-- Follows the log until it has seen `count` records; every read must go on where the last one ended.
local READER = COMMON .. [[
local topic = assert(open():topic("t", {}))
local next_offset, last = 0, {}
while next_offset < count do
  for offset, key, value in topic:records { from = next_offset } do
    assert(offset == next_offset, "a gap or a repetition at " .. next_offset)
    assert(tonumber(value) == (last[key] or -1) + 1, "out of order")
    last[key], next_offset = tonumber(value), offset + 1
  end
end
print("read " .. next_offset)
]]

local CLEANED = COMMON .. [[
local config = { cleanup_policy = "compact", segment_bytes = 5000, delete_retention_ms = 0, min_cleanable_dirty_ratio = 0 }
]]

local KEEPER = CLEANED .. [[
local store = open()
local topic = assert(store:topic("t", config))
while topic:latest() < count do
  assert(topic:roll())
  local report = assert(store:maintain())
  assert(report.failed == 0 and report.corrupt == 0, report.reason)
end
print "kept"
]]

local UPDATER = CLEANED .. [[
local topic = assert(open():topic("t", config))
for i = 1, count do
  if i % 10 == 0 then assert(topic:append(me .. i % 50, nil)) else assert(topic:append(me .. i % 50, tostring(i))) end
end
]]

local CREATOR = COMMON .. [[
local store = open()
for i = 1, count do
  local topic = assert(store:topic("t" .. i, { partitions = 2 }))
  assert(topic:append(me, tostring(i), { partition = i % 2 }))
end
]]

describe("processes on one store", function()
  local path, folder

  before_each(function()
    path = support.path()
    folder = path:gsub("store$", "")
  end)
  after_each(support.cleanup)

  -- Runs each { script, name, count } at the same time; returns their outputs.
  local function together(list)
    local commands, outputs = {}, {}
    for i, given in ipairs(list) do
      local command, out = disk.script(folder .. i .. ".lua", given[1]), "'" .. folder .. i .. ".out'"
      commands[i] = string.format("{ %s '%s' %s %d > %s 2>&1 || echo failed >> %s; } &", command, path, given[2], given[3], out, out)
    end
    assert.equal(0, disk.run(table.concat(commands, "\n") .. "\nwait"))
    for i in ipairs(list) do
      outputs[i] = disk.read(folder .. i .. ".out")
      assert(not outputs[i]:find "failed", outputs[i])
    end
    return outputs
  end

  -- All offsets that were acknowledged are there once, with the record of who was told so.
  local function check_log(topic, outputs, names, count)
    local owner, total = {}, 0
    for i, name in ipairs(names) do
      local n = 0
      for offset in outputs[i]:gmatch "(%d+) %w+ %d+\n" do
        offset = tonumber(offset)
        assert(owner[offset] == nil, "offset " .. offset .. " was given twice")
        owner[offset], n = name, n + 1
      end
      assert(n >= count)
      total = total + n
    end
    local expected, last = 0, {}
    for offset, key, value in topic:records() do
      assert(offset == expected, "a gap at " .. expected)
      assert(owner[offset] == key, "offset " .. offset .. " is not who appended it")
      assert(tonumber(value) == (last[key] or -1) + 1, "out of order")
      last[key], expected = tonumber(value), offset + 1
    end
    assert.same({ total, total }, { expected, topic:latest() })
  end

  local function writers(names, count, reader)
    local list = {}
    for i, name in ipairs(names) do list[i] = { WRITER, name, count } end
    if reader then list[#list + 1] = { READER, "reader", #names * count } end
    return list
  end

  local NAMES = { "a", "b", "c", "d" }

  it("append and read at once, the store being new", function()
    local outputs = together(writers(NAMES, 1000, true))
    assert.matches("read %d+", outputs[5])
    check_log(support.open(path):topic "t", outputs, NAMES, 1000)
  end)

  it("append and read at once beside a process that has the store open", function()
    local topic = support.open(path):topic("t", {})
    local outputs = together(writers(NAMES, 1000, true))
    check_log(topic, outputs, NAMES, 1000)
    local n = topic:latest()
    assert.equal(n, (topic:append("e", "0")))
  end)

  it("find everything again after all have gone", function()
    local outputs = together(writers(NAMES, 300))
    local store = support.open(path)
    check_log(store:topic "t", outputs, NAMES, 300)
    store:close()
    check_log(support.open(path):topic "t", outputs, NAMES, 300)
  end)

  it("append while another cleans", function()
    local topic = support.open(path):topic("t", { cleanup_policy = "compact", segment_bytes = 5000, delete_retention_ms = 0 })
    together { { UPDATER, "a", 2000 }, { UPDATER, "b", 2000 }, { KEEPER, "keeper", 4000 } }
    assert.equal(4000, topic:latest())
    local last, values = -1, {}
    for offset, key, value in topic:records() do
      assert(offset > last)
      last, values[key] = offset, value
    end
    for _, name in ipairs { "a", "b" } do
      for k = 0, 49 do
        local expected = k % 10 ~= 0 and tostring(k == 0 and 2000 or 1950 + k) or nil
        assert.equal(expected, values[name .. k], name .. k)
      end
    end
  end)

  it("append while others die at any instant", function()
    local topic, lines = support.open(path):topic("t", { segment_bytes = 20000 }), {}
    for i = 1, 4 do
      local command = disk.script(folder .. i .. ".lua", i < 4 and DYING or WRITER)
      local rounds = i < 4 and "1 2 3 4 5" or "1"
      lines[i] = string.format("for r in %s; do %s '%s' %s$r %d >> '%s%d.out'; done &", rounds, command, path, ("abcw"):sub(i, i),
                               i < 4 and 100 + i or 3000, folder, i)
    end
    disk.run("{ " .. table.concat(lines, "\n") .. "\nwait; } 2> '" .. folder .. "errors'")
    assert.is_nil(disk.read(folder .. "errors"):find "lua:")
    local told, total = {}, 0
    for i = 1, 4 do
      for offset, name, value in disk.read(folder .. i .. ".out"):gmatch "(%d+) (%w+) (%d+)\n" do
        assert(not told[tonumber(offset)], "offset " .. offset .. " was given twice")
        told[tonumber(offset)], total = name .. value, total + 1
      end
    end
    assert(total >= 3000 + 5 * (101 + 102 + 103))
    local expected, last = 0, {}
    for offset, key, value in topic:records() do
      assert(offset == expected, "a gap at " .. expected)
      assert(tonumber(value) == (last[key] or -1) + 1, "out of order")
      assert(told[offset] == nil or told[offset] == key .. value, "offset " .. offset .. " is not who appended it")
      told[offset], last[key], expected = nil, tonumber(value), offset + 1
    end
    assert.is_nil(next(told))
    assert.equal(expected, topic:latest())
  end)

  it("create the same topics", function()
    together { { CREATOR, "a", 15 }, { CREATOR, "b", 15 }, { CREATOR, "c", 15 } }
    local store = support.open(path)
    assert.equal(15, #store:topics())
    for i = 1, 15 do
      local topic = store:topic("t" .. i)
      assert.same({ 3, 0 }, { topic:latest(i % 2), topic:latest(1 - i % 2) })
    end
  end)

  it("see each other's configs, deletions and growth at the next call", function()
    local store = support.open(path)
    local topic = store:topic("t", {})
    topic:append("k", "v")
    local function other(text) together { { COMMON .. "local store = open()\nlocal topic = store:topic 't'\n" .. text, "x", 1 } } end
    other "assert(topic:alter { retention_ms = 5, partitions = 3 })"
    assert.equal(5, topic:config()["retention.ms"])
    assert.equal(0, topic:latest(2))
    other "assert(topic:roll()) assert(topic:append('k', 'w', { partition = 0 }))"
    assert.equal(2, #topic:segments())
    assert.equal("k=v k=w", support.words(topic:records()))
    other "assert(topic:delete_records(1))"
    assert.equal(1, topic:earliest())
    other "assert(store:delete_topic 't') assert(store:topic('t', {}):append('n', 'new'))"
    assert.equal("unknown_topic", select(3, topic:append("k", "v")))
    assert.equal("n=new", support.words(store:topic("t"):records()))
  end)

  it("read only beside a writer", function()
    local store = support.open(path)
    local topic = store:topic("t", {})
    topic:append("a", "1")
    local outputs = together { { COMMON:gsub("background = false", "readonly = true, background = false") .. [[
local topic = open():topic "t"
for _, key, value in topic:records() do print(key .. "=" .. value) end
print(select(3, topic:append("x", "y")))
]], "x", 1 } }
    assert.equal("a=1\nreadonly\n", outputs[1])
  end)
end)

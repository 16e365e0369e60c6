-- A topic is deleted and made anew while others are at work on the old one: they are told, and nothing of the new one is touched.
local support = require "support"
local disk = require "disk"

local KEEPER = [[
local sediment = require "sediment"
local path, done = arg[1], arg[2]
local now = 1700000000000
local store = assert(sediment.open(path, { background = false, clock = function() return now end }))
local function told(what, value, message, code)
  if not value and code ~= "unknown_topic" then error(what .. ": " .. tostring(code) .. " " .. tostring(message)) end
  return value
end
local function raised(what, ok, err)
  if not ok and (type(err) ~= "table" or err.code ~= "unknown_topic") then error(what .. ": " .. tostring(err)) end
end
local rounds = 0
while not io.open(done) do
  rounds = rounds + 1
  local topic = told("topic", store:topic "x")
  if topic then
    local config = told("config", topic:config())
    if config and config["cleanup.policy"]:find "compact" then told("compact", topic:compact { force = true }) end
    told("roll", topic:roll())
    told("retain", topic:retain { now = now + 10 ^ 9 })
    told("stats", topic:stats())
    told("segments", topic:segments())
    told("table", store:table "x")
    raised("records", pcall(function() for _ in topic:records() do end end))
    local _, message, code = topic:offset_for_time(now - 5)
    told("offset_for_time", not message, message, code)
    told("flush", topic:flush())
  end
  local report = assert(store:maintain { now = now + 10 ^ 9 })
  assert(report.failed == 0, report.reason)
end
assert(rounds > 3, "it never got a turn")
assert(store:close())
]]

local OWNER = [[
local sediment = require "sediment"
local path, done = arg[1], arg[2]
local store = assert(sediment.open(path, { background = false, clock = function() return 1700000000000 end }))
for round = 1, 120 do
  -- config tells the others to delete or to merge everything
  local policy = round % 2 == 0 and "compact,delete" or "compact"
  local old = assert(store:topic("x", { cleanup_policy = policy, retention_ms = 1, delete_retention_ms = 0, file_delete_delay_ms = 0,
                                        segment_bytes = 500, min_cleanable_dirty_ratio = 0 }))
  for i = 1, 30 do assert(old:append("k" .. i % 4, i % 5 > 0 and "old" .. i or nil)) end
  assert(store:delete_topic "x")
  local new = assert(store:topic("x", { retention_ms = -1 }))
  for i = 0, 9 do assert(new:append("k", round .. "/" .. i, { sync = i % 4 == 0 }) == i) end
  assert(new:roll())
  assert(new:append("k", round .. "/10") == 10)
  local expected = 0
  for offset, key, value in new:records() do
    assert(offset == expected and key == "k" and value == round .. "/" .. offset, round .. ": " .. tostring(value) .. " at " .. offset)
    expected = expected + 1
  end
  assert(expected == 11 and new:latest() == 11 and new:earliest() == 0, "round " .. round .. ": " .. expected .. " records")
  local s = new:stats().partitions[0]
  assert(s.corrupt_batches == 0 and s.truncated_bytes == 0)
  if round < 120 then assert(store:delete_topic "x") end
end
assert(store:close())
assert(io.open(done, "w")):close()
]]

describe("a topic deleted and made anew", function()
  local path, folder

  before_each(function()
    path = support.path()
    folder = path:gsub("store$", "")
  end)
  after_each(support.cleanup)

  local function remake(store)
    assert(store:delete_topic "x")
    local topic = assert(store:topic("x", { retention_ms = -1 }))
    for i = 0, 9 do topic:append("k", "new" .. i, { sync = true }) end
    topic:roll()
    topic:append("k", "new10")
    return topic
  end

  local function is_new(topic)
    local records = support.collect(topic:records())
    assert.equal(11, #records)
    for i, r in ipairs(records) do assert.same({ i - 1, "new" .. i - 1 }, { r.offset, r.value }) end
  end

  it("is unknown to the old handles, and untouched by them", function()
    local store = support.open(path)
    local old = store:topic("x", { cleanup_policy = "compact,delete", retention_ms = 0, delete_retention_ms = 0, segment_bytes = 200 })
    for i = 1, 30 do old:append("k" .. i % 3, i % 4 > 0 and "old" .. i or nil) end
    local iterator = old:records()
    iterator()
    local new = remake(store)
    local now = support.now + 10 ^ 9
    for name, call in pairs {
      compact = function() return old:compact { force = true, now = now } end,
      retain = function() return old:retain { now = now } end,
      roll = function() return old:roll() end,
      flush = function() return old:flush() end,
      append = function() return old:append("k", "v") end,
      delete_records = function() return old:delete_records(5) end,
      alter = function() return old:alter { retention_ms = 1 } end,
      stats = function() return old:stats() end,
      segments = function() return old:segments() end,
      latest = function() return old:latest() end,
    } do
      assert.equal("unknown_topic", select(3, call()), name)
    end
    assert.equal("unknown_topic", support.raised(function() while iterator() do end end).code)
    assert.equal(0, store:maintain({ now = support.now + 10 ^ 6 }).failed)
    is_new(new)
    store:close()
    is_new(support.open(path):topic "x")
  end)

  -- The others hold the old topic at any step of their work when it goes.
  it("loses nothing to processes that clean and retain the old one", function()
    local holder = support.open(path)
    holder:topic("y", {}):append("k", "v")
    local keeper, owner = disk.script(folder .. "keeper.lua", KEEPER), disk.script(folder .. "owner.lua", OWNER)
    local line, lines = "{ %s '%s' '%sdone' || touch '%sdone'; } >> '%sout' 2>&1 &", {}
    for i, command in ipairs { keeper, keeper, owner } do lines[i] = line:format(command, path, folder, folder, folder) end
    disk.run(table.concat(lines, "\n") .. "\nwait")
    assert.equal("", disk.read(folder .. "out"))
    holder:close()
    local store = support.open(path)
    local records = support.collect(store:topic("x"):records())
    assert.equal(11, #records)
    for i, r in ipairs(records) do assert.same({ i - 1, "120/" .. i - 1 }, { r.offset, r.value }) end
    assert.same({ "x", "y" }, store:topics())
  end)
end)

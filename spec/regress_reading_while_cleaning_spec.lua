-- Whatever reads looks again when its segments are replaced under it: it never answers not_found.
local support = require "support"
local disk = require "disk"

local CLEANER = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic = assert(store:topic "t")
local rounds = 0
while rounds < 4 or not io.open(arg[2]) do                  -- readers may be quick
  for i = 1, 30 do assert(topic:append("k" .. (rounds + i) % 12, "v" .. i)) end
  assert(topic:roll())
  assert(topic:compact { force = true })
  assert(store:maintain().failed == 0)
  rounds = rounds + 1
end
]]

local READER = [[
local sediment = require "sediment"
local readonly = arg[3] == "readonly"
local store = assert(sediment.open(arg[1], { background = false, readonly = readonly, clock = function() return 1700000000000 end }))
local topic = assert(store:topic "t")
local function may_be_busy(value, message, code)
  assert(value or (readonly and code == "busy"), tostring(code) .. ": " .. tostring(message))
  return value
end
for round = 1, tonumber(arg[4]) do
  local state = may_be_busy(store:table "t")
  assert(not state or (state:count() == 12 and state:close()))
  may_be_busy(topic:stats())
  may_be_busy(topic:segments())
  local _, message, code = topic:offset_for_time(1700000000000)
  may_be_busy(not message, message, code)
  local last = -1
  local ok, err = pcall(function()
    for offset in topic:records() do
      if offset <= last then error("disorder", 0) end
      last = offset
    end
  end)
  may_be_busy(ok, err, type(err) == "table" and err.code)
end
]]

describe("while another process cleans without end", function()
  after_each(support.cleanup)

  it("tables, stats, segments, look-ups by time and iterators work", function()
    local path = support.path()
    local folder = path:gsub("store$", "")
    local store = support.open(path)
    local config = { cleanup_policy = "compact", segment_bytes = 400, min_cleanable_dirty_ratio = 0, file_delete_delay_ms = 0 }
    local topic = store:topic("t", config)
    for i = 0, 11 do topic:append("k" .. i, "v") end
    local cleaner, reader = disk.script(folder .. "cleaner.lua", CLEANER), disk.script(folder .. "reader.lua", READER)
    disk.run(([[
{ %s '%s' '%sdone'; } >> '%sout' 2>&1 & keeper=$!
{ %s '%s' '' '' 150; } >> '%sout' 2>&1 & one=$!
{ %s '%s' '' readonly 60; } >> '%sout' 2>&1 & two=$!
wait $one; wait $two; touch '%sdone'; wait $keeper]]):format(cleaner, path, folder, folder, reader, path, folder, reader, path, folder,
                                                           folder))
    assert.equal("", disk.read(folder .. "out"))
    assert.equal(12, store:table("t"):count())
  end)
end)

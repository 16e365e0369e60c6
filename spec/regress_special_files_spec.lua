-- A FIFO where a store has a file: nobody writes to it, so whoever opened it to read would wait for ever. It is an error.
local support = require "support"
local disk = require "disk"

local LOOK = [[
local sediment = require "sediment"
local function try(...)
  local value, message, code = ...
  assert(value or (code and #message > 0))
  return value
end
for _, readonly in ipairs { false, true } do
  local store = try(sediment.open(arg[1], { background = false, readonly = readonly, clock = function() return 1700000000000 end }))
  local topic = store and try(store:topic("t", not readonly and {} or nil))
  if topic then
    pcall(function() for _ in topic:records() do end end)
    topic:offset_for_time(1)
    topic:segments()
    topic:stats()
    if not readonly then
      topic:append("k", "v", { sync = true })
      topic:delete_records(2)
      topic:compact { force = true }
      store:maintain { now = 1700000000000 + 10 ^ 10 }
      store:delete_topic "t"
    end
  end
  if store then store:close() end
end
local bare = try(sediment.open_partition(arg[1] .. "/t-0"))
if bare then pcall(function() for _ in bare:records() do end end) end
print "no hang"
]]

describe("a FIFO in place of a file", function()
  after_each(support.cleanup)

  it("never makes anything wait", function()
    local path = support.path()
    local command = disk.script(path .. ".lua", LOOK)
    support.every_kind_of_file(path)
    local places = {}
    for _, name in ipairs(disk.list(path)) do
      if name ~= "t-0" then places[#places + 1] = name end
    end
    for _, name in ipairs(disk.list(path .. "/t-0")) do places[#places + 1] = "t-0/" .. name end
    for _, name in ipairs { "t-0/sediment.swap", "sediment.topics.tmp", "t-0/" .. disk.log(1000) } do places[#places + 1] = name end
    assert(#places > 15, "every kind of file")
    for _, place in ipairs(places) do
      local copy = path .. "-copy"
      os.execute("rm -rf '" .. copy .. "'")
      disk.copy(path, copy)
      os.remove(copy .. "/" .. place)
      disk.run(("mkfifo '%s/%s'; timeout 10 %s '%s' > '%s.out' 2>&1"):format(copy, place, command, copy, path))
      assert.equal("no hang\n", disk.read(path .. ".out"), place)
    end
  end)
end)

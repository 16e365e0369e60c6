-- The checkpoint of log starts belongs to all processes: one that closes, or looks after the store, takes back nothing that another has
-- just written.
local support = require "support"
local disk = require "disk"

local COMER = [[
local sediment = require "sediment"
while not io.open(arg[2]) do
  local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
  assert(store:stats())
  assert(store:maintain().failed == 0)
  assert(store:close())
end
]]

describe("a log start that delete_records returned", function()
  after_each(support.cleanup)

  it("stays in the checkpoint while other processes come and go", function()
    local path = support.path()
    local folder = path:gsub("store$", "")
    local store = support.open(path)
    store:topic("first", {}):append("k", "v")
    local comer = disk.script(folder .. "comer.lua", COMER)
    for i = 1, 2 do disk.run(("{ %s '%s' '%sdone'; echo ended; } > '%sout%d' 2>&1 &"):format(comer, path, folder, folder, i)) end
    local starts = {}
    for i = 1, 150 do
      local topic = assert(store:topic("t" .. i, {}))
      for _ = 1, 5 do topic:append("k", "v") end
      local start = 1 + i % 4
      assert.equal(start, topic:delete_records(start))
      starts[i] = start
      for j = math.max(1, i - 3), i do
        local text = disk.read(path .. "/log-start-offset-checkpoint")
        assert(text:find(("\nt%d 0 %d\n"):format(j, starts[j]), 1, true), "t" .. j .. " is missing in:\n" .. text)
      end
    end
    disk.write(folder .. "done", "")
    for i = 1, 2 do
      repeat local text = disk.read(folder .. "out" .. i) until text:find "ended"
      assert.equal("ended\n", disk.read(folder .. "out" .. i))
    end
    store:close()
    store = support.open(path)
    for i, start in ipairs(starts) do assert.equal(start, store:topic("t" .. i):earliest()) end
  end)
end)

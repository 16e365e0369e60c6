-- A limit on the size of files (ulimit -f) is a full disk, not the death of the process by SIGXFSZ.
local support = require "support"
local disk = require "disk"

describe("with a limit on the size of files", function()
  after_each(support.cleanup)

  it("appends answer disk_full and reads go on", function()
    local path = support.path()
    local command = disk.script(path .. ".lua", [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic = assert(store:topic("t", { segment_bytes = 10 ^ 9, retention_ms = -1 }))
local kept, message, code = 0
while true do
  local offset
  offset, message, code = topic:append(nil, ("x"):rep(1000) .. kept)
  if not offset then break end
  assert(offset == kept)
  kept = kept + 1
end
assert(code == "disk_full", message)
local expected = 0
for offset, _, value in topic:records() do
  assert(offset == expected and value == ("x"):rep(1000) .. offset)
  expected = expected + 1
end
assert(expected == kept and topic:latest() == kept and kept > 500)
assert(topic:alter { segment_bytes = 600000 })           -- a new segment has room
assert(topic:roll() == nil)
print("still alive", kept)
]])
    disk.run(("ulimit -f 1000; %s '%s' > '%s.out' 2>&1"):format(command, path, path))
    local kept = disk.read(path .. ".out"):match "^still alive%s+(%d+)\n$"
    assert(kept, disk.read(path .. ".out"))
    local topic = support.open(path):topic "t"
    assert.equal(tonumber(kept), topic:latest())
    assert.equal(tonumber(kept), #support.collect(topic:records()))
  end)

  it("a program's own way to take the signal stays", function()
    if not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
    local path = support.path()
    local command = disk.script(path .. ".lua", [[
local ffi = require "ffi"
ffi.cdef "typedef void (*handler)(int); handler signal(int, handler);"
local mine = ffi.cast("handler", 1)                      -- SIG_IGN
ffi.C.signal(25, mine)
local store = assert(require "sediment".open(arg[1], { background = false }))
assert(ffi.C.signal(25, mine) == mine)
store:close()
print "kept"
]])
    disk.run(("%s '%s' > '%s.out' 2>&1"):format(command, path, path))
    assert.equal("kept\n", disk.read(path .. ".out"))
  end)
end)

-- A child that inherited an open store holds none of its locks: when the parent is gone, the store is everybody's.
local support = require "support"
local disk = require "disk"

local PARENT = [[
local ffi = require "ffi"
ffi.cdef "int fork(void); int getpid(void); int getppid(void); int sched_yield(void); int kill(int, int); void _exit(int);"
ffi.cdef "int pipe(int *); long read(int, void *, size_t); int close(int);"
local C = ffi.C
local sediment = require "sediment"
local path, state = arg[1], arg[2]
local store = assert(sediment.open(path, { options = { linger_ms = 20 } }))
local topic = assert(store:topic("t", { retention_ms = -1 }))
assert(topic:append("k", "of the parent") == 0)
local ends, byte, parent = ffi.new "int[2]", ffi.new "char[1]", C.getpid()
C.pipe(ends)
if C.fork() == 0 then
  C.close(ends[1])
  C.read(ends[0], byte, 1)                               -- ends when the parent dies,
  while C.getppid() == parent do C.sched_yield() end     -- and this when all its files are closed
  assert(select(3, topic:append("k", "v")) == "forked" and select(3, store:maintain()) == "forked" and select(3, topic:stats()) == "forked")
  local go = assert(io.open(state .. ".alone", "w"))
  go:close()
  assert(io.open(state .. ".go", "r")):read "*a"         -- a FIFO: until the other process has looked
  if arg[3] == "close" then assert(store:close()) end
  local out = assert(io.open(state .. ".child", "w"))
  out:write "ended"
  out:close()
  C._exit(0)
end
C.close(ends[0])
C.kill(C.getpid(), 9)
]]

describe("a forked child", function()
  after_each(support.cleanup)

  for _, how in ipairs { "close", "exit" } do
    it("keeps nothing from others when its parent has died, and does no harm by " .. how, function()
      if not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
      local path = support.path()
      local state = path .. "-state"
      local command = disk.script(path .. ".lua", PARENT)
      disk.run(("mkfifo '%s.alone' '%s.go' '%s.child'"):format(state, state, state))
      disk.run(("{ %s '%s' '%s' %s; } > '%s.out' 2>&1 &"):format(command, path, state, how, state))
      assert.equal(0, disk.run("timeout 20 cat '" .. state .. ".alone'"))      -- ends when the child is alone

      local store = support.open(path)
      local topic = store:topic "t"
      assert.equal("k=of the parent", support.words(topic:records()))
      assert.equal(1, topic:append("k", "v"))
      assert(store:close())
      assert(disk.exists(path .. "/.kafka_cleanshutdown"), "somebody else seemed to have the store open")

      store = support.open(path)
      topic = store:topic "t"
      assert.equal(0, disk.run("timeout 20 sh -c \"echo > '" .. state .. ".go'; cat '" .. state .. ".child' > '" .. state .. ".ended'\""))
      assert.equal("ended", disk.read(state .. ".ended"))
      assert.equal(2, topic:append("k", "w"))
      assert.equal("k=of the parent k=v k=w", support.words(topic:records()))
      assert(store:close())
      assert.equal("", (disk.read(state .. ".out"):gsub("[^\n]*Killed[^\n]*\n", "")))
    end)
  end
end)

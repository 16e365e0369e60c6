-- A store is found again wherever the program has changed its directory to.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("a store opened by a relative path", function()
  after_each(support.cleanup)

  local has_ffi, ffi = pcall(require, "ffi")

  it("stays where it is when the program changes its directory", function()
    if not has_ffi then return end                 -- only LuaJIT can change the directory of the process
    ffi.cdef "int chdir(const char *path); char *getcwd(char *buffer, size_t size);"
    local buffer = ffi.new("char[?]", 4096)
    local before = ffi.string(ffi.C.getcwd(buffer, 4096))
    local path = support.path()
    local folder, name = path:match "^(.*)/([^/]+)$"
    assert.equal(0, ffi.C.chdir(folder))
    local store = assert(sediment.open(name .. "/", { background = false }))
    local topic = store:topic("t", {})
    ffi.C.chdir "/"
    assert.equal(0, (topic:append("k", "v")))
    topic:roll()
    topic:append("k", "w")
    local n = 0
    for _ in topic:records() do n = n + 1 end
    assert.equal(2, n)
    assert.equal(path .. "/t-0/00000000000000000000.log", topic:segments()[1].path)
    local bare = assert(sediment.open_partition(path .. "/t-0/"))
    assert.equal(2, bare:latest())
    bare:close()
    assert.is_true(store:close())
    ffi.C.chdir(before)
  end)
end)

describe("a C module for the other Lua", function()
  it("is told for what it is", function()
    local scripts = require "scripts"
    local other = rawget(_G, "jit") and "5.4" or "luajit"
    local program = ("package.path = %q package.cpath = %q require 'sediment'"):format(scripts.root .. "/lua/?.lua;" .. scripts.root ..
      "/lua/?/init.lua", scripts.root .. "/build/" .. other .. "/?.so")
    local said = scripts.shell(("%s -e \"%s\" 2>&1"):format(disk.lua(), (program:gsub('"', "'"))))
    assert.matches("sediment: the C module that package.cpath leads to is for another Lua than Lua", said, 1, true)
  end)
end)

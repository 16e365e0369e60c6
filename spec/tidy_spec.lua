-- The tidy checks must be able to fail: each offence is planted in a small tree and has to be named.
local function run(command)
  local p = io.popen("{ " .. command .. "; } 2>&1; echo \"status $?\"")
  local said = p:read "*a"
  p:close()
  return (said:gsub("status %d+\n$", "")), tonumber(said:match "status (%d+)\n$")
end

local LUA = os.getenv "SEDIMENT_LUA" or "lua5.4"

describe("the tidy checks", function()
  local root

  local function write(path, text)
    run("mkdir -p '" .. root .. "/" .. path:match "^(.*)/" .. "'")
    local f = assert(io.open(root .. "/" .. path, "w"))
    f:write(text)
    f:close()
  end

  before_each(function()
    root = run("mktemp -d"):gsub("\n", "")
    write("csrc/base/err.h", "#include <stdint.h>\n")
    write("csrc/base/clock.c", "#include <time.h>\n#include \"base/err.h\"\n")
    write("csrc/os/fs.c", "#include <unistd.h>\n#include <sys/stat.h>\n#include \"base/err.h\"\n")
    write("csrc/os/fs.h", "#include \"base/err.h\"\n")
    write("csrc/format/batch.h", "#include \"base/err.h\"\n")
    write("csrc/log/log.h", "#include \"os/fs.h\"\n#include \"format/batch.h\"\n#include \"sediment.h\"\n")
    write("csrc/lua/module.c", "#include <lua.h>\n#include \"sediment.h\"\n#include \"log/log.h\"\n")
    write("csrc/sediment.h", "#include \"base/err.h\"\n#include \"format/batch.h\"\n")
  end)

  after_each(function() run("rm -rf '" .. root .. "'") end)

  describe("of layers", function()
    local function check() return run(LUA .. " tools/check-layers.lua " .. root) end

    local function refuses(path, include, said)
      write(path, "\n#include " .. include .. "\n")
      local text, status = check()
      assert.equal(1, status)
      assert.truthy(text:find(said, 1, true), text)
    end

    it("pass a tree in order", function()
      local text, status = check()
      assert.equal("", text)
      assert.equal(0, status)
    end)

    it("name an include of a higher layer", function()
      refuses("csrc/base/bad.c", '"os/fs.h"', "csrc/base/bad.c:2: layer base includes the higher layer os")
      refuses("csrc/log/bad.c", '"store/config.h"', "no file of csrc/")
    end)
    it("keep os out of format", function() refuses("csrc/format/bad.c", '"os/fs.h"', "format does no I/O") end)
    it("keep sediment.h above format", function() refuses("csrc/os/bad.h", '"sediment.h"', "layer os may not include sediment.h") end)
    it("keep sediment.h on base and format", function() refuses("csrc/sediment.h", '"log/log.h"', "may not include layer log") end)
    it("keep Lua in its layer", function()
      refuses("csrc/store/bad.c", "<lauxlib.h>", "csrc/store/bad.c:2: lauxlib.h belongs in csrc/lua/ only")
      refuses("csrc/store/bad.c", '"lua.h"', "lua.h belongs in csrc/lua/ only")
    end)
    it("keep system calls in their layer", function()
      for _, header in ipairs { "unistd.h", "fcntl.h", "sys/mman.h", "pthread.h", "dirent.h", "linux/futex.h", "time.h" } do
        refuses("csrc/log/bad.c", "<" .. header .. ">", header .. " belongs in csrc/os/ only")
      end
    end)
    it("keep clusters beside the store", function()
      write("csrc/kafka/client.h", "#include \"base/err.h\"\n")
      write("csrc/kafka/client.c", "#include <librdkafka/rdkafka.h>\n#include \"kafka/client.h\"\n")
      write("csrc/lua_kafka/store.c", "#include <lua.h>\n#include \"kafka/client.h\"\n#include \"os/fs.h\"\n")
      assert.same({ "", 0 }, { check() })
      refuses("csrc/store/bad.c", '"kafka/client.h"', "layer store includes the higher layer kafka")
      refuses("csrc/kafka/bad.c", '"os/fs.h"', "layer kafka may not include layer os")
      refuses("csrc/kafka/bad.c", '"sediment.h"', "layer kafka may not include sediment.h")
      refuses("csrc/lua_kafka/bad.c", '"log/log.h"', "layer lua_kafka may not include layer log")
      refuses("csrc/lua_kafka/bad.c", "<librdkafka/rdkafka.h>", "librdkafka/rdkafka.h belongs in csrc/kafka/ only")
      refuses("csrc/kafka/bad.c", "<lua.h>", "lua.h belongs in csrc/lua/ only")
    end)
    it("name a circle of headers", function()
      write("csrc/base/a.h", '#include "base/b.h"\n')
      refuses("csrc/base/b.h", '"base/a.h"', "base/a.h -> base/b.h -> base/a.h")
    end)
    it("name a file outside the layers", function() refuses("csrc/misc/x.c", '"base/err.h"', "lies in no layer") end)
  end)

  describe("of size", function()
    local function check() return run(LUA .. " tools/check-size.lua " .. root) end

    local function lines(n, line) return (line .. "\n"):rep(n) end

    local function verdict(path, text)
      write(path, text)
      local said, status = check()
      return status, said
    end

    it("pass a function of 70 lines and a file of 600", function()
      assert.equal(0, verdict("csrc/base/a.c", "int f(void)\n{\n" .. lines(67, "  g();") .. "}\n"))
      assert.equal(0, verdict("lua/a.lua", "local function f()\n" .. lines(68, "  g()") .. "end\n"))
      assert.equal(0, verdict("csrc/base/b.c", lines(600, "")))
    end)
    it("name a longer function", function()
      local status, said = verdict("csrc/base/a.c", "int f(int a,\n      int b) {\n" .. lines(68, "  if (a) { g(b); }") .. "}\n")
      assert.equal(1, status)
      assert.truthy(said:find("csrc/base/a.c:1: 71 lines, 70 at most: int f(int a,", 1, true), said)
    end)
    it("name a longer function of Lua", function()
      local body = lines(23, "  if x then g() end") .. lines(23, "  s = 'end' -- end") .. lines(23, "  for _ = 1, 2 do g() end")
      local status, said = verdict("lua/a.lua", "local M = {}\n--[[ function\n]]\nfunction M.f()\n" .. body .. "end\n")
      assert.equal(1, status)
      assert.truthy(said:find("lua/a.lua:4: 71 lines, 70 at most: function M.f()", 1, true), said)
    end)
    it("let a long table be", function()
      assert.equal(0, verdict("csrc/base/t.c", "static const int t[] = {\n" .. lines(100, "  1,") .. "};\n"))
      assert.equal(0, verdict("csrc/base/s.h", "typedef struct s {\n" .. lines(100, "  int (*f)(void);") .. "} s;\n"))
    end)
    it("name a longer file", function()
      local status, said = verdict("csrc/base/a.c", lines(601, ""))
      assert.equal(1, status)
      assert.truthy(said:find("csrc/base/a.c: 601 lines, 600 at most", 1, true), said)
    end)
  end)
end)

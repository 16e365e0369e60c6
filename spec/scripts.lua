-- Runs Lua programs the way a user does: a process of its own, under the interpreter that runs the specs, with this tree's module.
local disk = require "disk"
local scripts = {}

local function shell(command)
  local p = assert(io.popen(command))
  local said = p:read "*a"
  p:close()
  return said
end

local root = shell "pwd":gsub("\n", "")
local build = jit and "luajit" or _VERSION:match "%d%.%d"

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- A fresh directory; scripts.remove takes it away.
function scripts.directory()
  return (shell "mktemp -d":gsub("\n", ""))
end

function scripts.remove(directory) shell("rm -rf " .. quote(directory)) end

--- Runs a script with arguments in a working directory: what it said, on both streams, and its exit status.
function scripts.run(directory, script, ...)
  local words = { quote(disk.lua()), quote(script) }
  for _, argument in ipairs { ... } do words[#words + 1] = quote(argument) end
  local said = shell("cd " .. quote(directory) .. " && unset LUA_PATH_5_4 LUA_CPATH_5_4 LUA_INIT LUA_INIT_5_4 && export" ..
    " LUA_PATH=" .. quote(root .. "/lua/?.lua;" .. root .. "/lua/?/init.lua;;") ..
    " LUA_CPATH=" .. quote(root .. "/build/" .. build .. "/?.so;;") ..
    " && " .. table.concat(words, " ") .. " 2>&1 < /dev/null; echo \"status $?\"")
  return said:gsub("status %d+\n$", ""), tonumber(said:match "status (%d+)\n$")
end

scripts.root, scripts.shell = root, shell
return scripts

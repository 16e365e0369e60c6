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

local CLEAN = "unset LUA_PATH LUA_CPATH LUA_PATH_5_4 LUA_CPATH_5_4 LUA_INIT LUA_INIT_5_4 SEDIMENT_STORE"

-- A shell command: this Lua with a script and its arguments.
local function lua(script, ...)
  local words = { quote(disk.lua()), quote(script) }
  for _, argument in ipairs { ... } do words[#words + 1] = quote(argument) end
  return table.concat(words, " ")
end

--- Runs a script with arguments in a working directory: what it said, on both streams, and its exit status.
function scripts.run(directory, script, ...)
  local said = shell("cd " .. quote(directory) .. " && " .. CLEAN .. " && export" ..
    " LUA_PATH=" .. quote(root .. "/lua/?.lua;" .. root .. "/lua/?/init.lua;;") ..
    " LUA_CPATH=" .. quote(root .. "/build/" .. build .. "/?.so;;") ..
    " && " .. lua(script, ...) .. " 2>&1 < /dev/null; echo \"status $?\"")
  return said:gsub("status %d+\n$", ""), tonumber(said:match "status (%d+)\n$")
end

--- The command sediment with arguments, for a shell: in a working directory, without what helps it to find its modules.
function scripts.sediment_command(directory, ...)
  return "cd " .. quote(directory) .. " && " .. CLEAN .. " && exec " .. lua(root .. "/bin/sediment", ...)
end

--- Runs the command: what it wrote to stdout, what to stderr, its exit status.
function scripts.sediment(directory, ...)
  local errors = os.tmpname()
  local command = "exec 2> /dev/null; (" .. scripts.sediment_command(directory, ...) .. ") 2> " .. errors
  local said = shell(command .. " < /dev/null; echo \"status $?\"")
  local complaint = disk.read(errors)
  os.remove(errors)
  return said:gsub("status %d+\n$", ""), complaint, tonumber(said:match "status (%d+)\n$")
end

--- Starts the command: a pipe with what it says on both streams, then "status N"; and its process's number.
function scripts.start_sediment(directory, ...)
  local command = "echo $$; " .. scripts.sediment_command(directory, ...)
  local pipe = assert(io.popen("sh -c " .. quote(command) .. " 2>&1 < /dev/null; echo \"status $?\""))
  return pipe, assert(tonumber(pipe:read "*l"))
end

scripts.root, scripts.shell, scripts.quote = root, shell, quote
return scripts

-- Checks the includes of csrc/: a file includes only its own layer and lower ones, the format layer does no I/O, Lua's headers stay in
-- csrc/lua/ and csrc/lua_kafka/, librdkafka's in csrc/kafka/, headers of system calls in csrc/os/, and no headers include each other in a
-- circle. Prints each offence; exit 1 if any.
--     lua tools/check-layers.lua [root]
local root = arg[1] or "."

local LAYERS = { "base", "os", "format", "log", "cleaner", "store", "lua", "kafka", "lua_kafka" }
local rank = {}
for i, name in ipairs(LAYERS) do rank[name] = i end

-- sediment.h lies beside the layers: it builds on base and format; log and cleaner take its report types from it, store and lua the rest.
local PUBLIC = "sediment.h"
local FROM_PUBLIC = { base = true, format = true }
-- Stores on a cluster stand beside those in folders: nothing of one knows of the other, but for what the two bindings share.
local BESIDE = {
  kafka = { base = true, kafka = true },
  lua_kafka = { base = true, os = true, lua = true, kafka = true, lua_kafka = true },
}
local TO_PUBLIC = { log = true, cleaner = true, store = true, lua = true }

local LUA_HEADERS = { ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true, ["luaconf.h"] = true, ["luajit.h"] = true }
local BINDING = { lua = true, lua_kafka = true }
local SYSTEM = { "^unistd%.h$", "^fcntl%.h$", "^sys/", "^pthread%.h$", "^dirent%.h$", "^linux/", "^sched%.h$", "^poll%.h$", "^signal%.h$",
                 "^threads%.h$", "^semaphore%.h$", "^time%.h$" }
local EXCEPTIONS = {
  ["base/clock.c"] = { ["time.h"] = true },
  ["base/crc32c.c"] = { ["sys/auxv.h"] = true },          -- what the processor can do: a look-up in the process's own memory
}

local offences = 0
local function offence(...)
  offences = offences + 1
  io.write(string.format(...), "\n")
end

local function layer_of(path) return path:match "^([^/]+)/" end

local function is_system(header)
  for _, pattern in ipairs(SYSTEM) do
    if header:find(pattern) then return true end
  end
  return false
end

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

local function check_own(file, at, target)
  local from, to = layer_of(file), layer_of(target)
  if not exists(root .. "/csrc/" .. target) then
    offence("%s: \"%s\" is no file of csrc/ (name it from there)", at, target)
  elseif target == PUBLIC then
    if not TO_PUBLIC[from] then offence("%s: layer %s may not include sediment.h", at, from) end
  elseif file == PUBLIC then
    if not FROM_PUBLIC[to] then offence("%s: sediment.h may not include layer %s", at, to) end
  elseif not rank[to] then
    offence("%s: %s is not a layer", at, to)
  elseif BESIDE[from] and not BESIDE[from][to] then
    offence("%s: layer %s may not include layer %s", at, from, to)
  elseif rank[to] > rank[from] then
    offence("%s: layer %s includes the higher layer %s", at, from, to)
  elseif from == "format" and to == "os" then
    offence("%s: format does no I/O and includes nothing of os", at)
  end
end

local function check_foreign(file, at, header)
  local from = layer_of(file)
  if LUA_HEADERS[header] and not BINDING[from] then
    offence("%s: %s belongs in csrc/lua/ only", at, header)
  elseif header:find "^librdkafka/" and from ~= "kafka" then
    offence("%s: %s belongs in csrc/kafka/ only", at, header)
  elseif is_system(header) and from ~= "os" and not (EXCEPTIONS[file] or {})[header] then
    offence("%s: %s belongs in csrc/os/ only", at, header)
  end
end

local includes = {}                       -- file -> the files of csrc/ that it includes
local function read(file)
  if file ~= PUBLIC and not rank[layer_of(file) or ""] then
    return offence("csrc/%s: lies in no layer", file)
  end
  includes[file] = {}
  local number = 0
  for line in io.lines(root .. "/csrc/" .. file) do
    number = number + 1
    local at = string.format("csrc/%s:%d", file, number)
    local own, foreign = line:match '^%s*#%s*include%s*"([^"]+)"', line:match "^%s*#%s*include%s*<([^>]+)>"
    if own and (LUA_HEADERS[own] or is_system(own)) then own, foreign = nil, own end
    if own then
      includes[file][#includes[file] + 1] = own
      check_own(file, at, own)
    elseif foreign then
      check_foreign(file, at, foreign)
    end
  end
end

local state = {}                          -- file -> "open" while its includes are being followed, "done" after
local function follow(file, trail)
  if state[file] == "done" or not includes[file] then return end
  trail[#trail + 1] = file
  if state[file] == "open" then
    offence("csrc/%s: includes itself: %s", file, table.concat(trail, " -> "))
  else
    state[file] = "open"
    for _, target in ipairs(includes[file]) do follow(target, trail) end
    state[file] = "done"
  end
  trail[#trail] = nil
end

local files = {}
for path in io.popen("cd '" .. root .. "/csrc' && find . -name '*.[ch]' | sort"):lines() do files[#files + 1] = path:gsub("^%./", "") end
for _, file in ipairs(files) do read(file) end
for _, file in ipairs(files) do follow(file, {}) end
os.exit(offences == 0 and #files > 0 and 0 or 1)

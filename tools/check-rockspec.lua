-- Checks that the rockspec lists exactly the files of the tree (and that luarocks accepts it), or writes that list anew.
--     lua tools/check-rockspec.lua [--write]
local ROCKSPEC = "sediment-scm-1.rockspec"

local function lines_of(command)
  local found = {}
  for line in io.popen(command):lines() do found[#found + 1] = line end
  return found
end

local function read()
  local f = assert(io.open(ROCKSPEC))
  local text = f:read "*a"
  f:close()
  return text
end

-- The `modules` table as it must stand, indentation and all.
local function modules()
  local out = { "  modules = {" }
  local sources = lines_of "LC_ALL=C find csrc -name '*.c' | LC_ALL=C sort"
  if #lines_of "find csrc/lua -name '*.c'" > 0 then
    out[#out + 1] = '    ["sediment.core"] = {'
    out[#out + 1] = "      sources = {"
    for _, path in ipairs(sources) do out[#out + 1] = string.format("        %q,", path) end
    out[#out + 1] = "      },"
    out[#out + 1] = '      incdirs = { "csrc", "$(XXHASH_INCDIR)" },'
    out[#out + 1] = '      defines = { "_GNU_SOURCE" },'
    out[#out + 1] = '      libraries = { "pthread", "dl" },'
    out[#out + 1] = "    },"
  end
  for _, path in ipairs(lines_of "find lua -name '*.lua' | LC_ALL=C sort") do
    local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
    out[#out + 1] = string.format("    [%q] = %q,", name, path)
  end
  out[#out + 1] = "  },"
  local commands = lines_of "find bin -type f 2>/dev/null | LC_ALL=C sort"
  if #commands > 0 then
    out[#out + 1] = '  install = { bin = { "' .. table.concat(commands, '", "') .. '" } },'
  end
  return table.concat(out, "\n") .. "\n"
end

local text = read()
local first = assert(text:find("  modules = {\n", 1, true), "the rockspec has no modules table")
local last = assert(select(2, text:find("\n}\n", first, true)), "the rockspec's build table has no end") - #"}\n"
local listed, wanted = text:sub(first, last), modules()

if arg[1] == "--write" then
  local f = assert(io.open(ROCKSPEC, "w"))
  f:write(text:sub(1, first - 1), wanted, text:sub(last + 1))
  f:close()
elseif listed ~= wanted then
  local function set(s)
    local lines = {}
    for line in s:gmatch "[^\n]+" do lines[line] = true end
    return lines
  end
  local a, b = set(listed), set(wanted)
  for line in pairs(b) do if not a[line] then print("not in the rockspec:" .. line) end end
  for line in pairs(a) do if not b[line] then print("only in the rockspec:" .. line) end end
  print "make rockspec writes the list anew"
  os.exit(1)
end

local lint = io.popen("env -u LUA_PATH -u LUA_CPATH luarocks lint " .. ROCKSPEC .. " 2>&1; echo $?")
local said = lint:read "*a"
if not said:find "\n?0\n$" then
  io.write(said)
  os.exit(1)
end

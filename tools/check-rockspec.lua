-- Checks that the rockspecs list exactly the files of the tree (and that luarocks accepts them), or writes those lists anew.
--     lua tools/check-rockspec.lua [--write]
local function lines_of(command)
  local found = {}
  for line in io.popen(command):lines() do found[#found + 1] = line end
  return found
end

local function read(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  return text
end

-- Of the core: all that is not of the module for clusters. Which files that one is made of, the Makefile says.
local function core_sources()
  return lines_of "LC_ALL=C find csrc -name '*.c' ! -path 'csrc/kafka/*' ! -path 'csrc/lua_kafka/*' | LC_ALL=C sort"
end
local function kafka_sources() return lines_of "make -s --no-print-directory list-kafka-sources" end

local ROCKSPECS = {
  ["sediment-scm-1.rockspec"] = {
    module = "sediment.core", sources = core_sources, lua = "find lua -name '*.lua' ! -path 'lua/sediment/kafka/*'",
    incdirs = '"csrc", "$(XXHASH_INCDIR)"', libraries = '"pthread", "dl"', commands = true,
  },
  ["sediment-kafka-scm-1.rockspec"] = {
    module = "sediment.kafka.core", sources = kafka_sources, lua = "find lua/sediment/kafka -name '*.lua'",
    incdirs = '"csrc", "$(RDKAFKA_INCDIR)"', libraries = '"rdkafka", "pthread", "dl"', libdirs = '"$(RDKAFKA_LIBDIR)"',
  },
}

-- The `modules` table as it must stand, indentation and all.
local function modules(of)
  local out = { "  modules = {" }
  local function add(...) out[#out + 1] = string.format(...) end
  add('    ["%s"] = {', of.module)
  add "      sources = {"
  for _, path in ipairs(of.sources()) do add("        %q,", path) end
  add "      },"
  add("      incdirs = { %s },", of.incdirs)
  if of.libdirs then add("      libdirs = { %s },", of.libdirs) end
  add '      defines = { "_GNU_SOURCE" },'
  add("      libraries = { %s },", of.libraries)
  add "    },"
  for _, path in ipairs(lines_of(of.lua .. " | LC_ALL=C sort")) do
    local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
    add("    [%q] = %q,", name, path)
  end
  add "  },"
  local commands = of.commands and lines_of "find bin -type f 2>/dev/null | LC_ALL=C sort" or {}
  if #commands > 0 then add('  install = { bin = { "%s" } },', table.concat(commands, '", "')) end
  return table.concat(out, "\n") .. "\n"
end

local function compare(path, listed, wanted)
  if listed == wanted then return true end
  local function set(s)
    local lines = {}
    for line in s:gmatch "[^\n]+" do lines[line] = true end
    return lines
  end
  local a, b = set(listed), set(wanted)
  for line in pairs(b) do if not a[line] then print("not in " .. path .. ":" .. line) end end
  for line in pairs(a) do if not b[line] then print("only in " .. path .. ":" .. line) end end
  print "make rockspec writes the lists anew"
end

local function lint(path)
  local said = io.popen("env -u LUA_PATH -u LUA_CPATH luarocks lint " .. path .. " 2>&1; echo $?"):read "*a"
  if said:find "\n?0\n$" then return true end
  io.write(said)
end

local good = true
for path, of in pairs(ROCKSPECS) do
  local text = read(path)
  local first = assert(text:find("  modules = {\n", 1, true), path .. " has no modules table")
  local last = assert(select(2, text:find("\n}\n", first, true)), path .. ": the build table has no end") - #"}\n"
  local wanted = modules(of)
  if arg[1] == "--write" then
    local f = assert(io.open(path, "w"))
    f:write(text:sub(1, first - 1), wanted, text:sub(last + 1))
    f:close()
  else
    good = compare(path, text:sub(first, last), wanted) and good
  end
  good = lint(path) and good
end
os.exit(good and 0 or 1)

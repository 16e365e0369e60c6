-- Loading a user's script, and calling what is in it.
--
-- Whatever is wrong is told as a message that begins with the script's name and, where there is one, the line: also of failures that the
-- library answers to a call of the script's, such as `assert(topic:append(...))`.
local core = require "sediment.core"
local check = require "sediment.check"
local policies = require "sediment.command.policies"
local offsets = require "sediment.offsets"

local script = {}

local Script = {}
Script.__index = Script

-- ------------------------------------------------------------------------------------------------------------------------------ calling

local function message_of(raised)
  if type(raised) == "string" then return raised end
  local meta = type(raised) == "table" and getmetatable(raised)
  if meta and meta.__tostring or type(raised) == "number" then return tostring(raised) end
  return "an error that is a " .. type(raised)
end

-- For xpcall: the message with its line, that of the innermost of the script's functions.
local function locate(chunk, raised)
  local message = message_of(raised)
  if message:sub(1, #chunk + 1) == chunk .. ":" then return message end
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return chunk .. ": " .. message end
    if info.source == "@" .. chunk and info.currentline > 0 then return ("%s:%d: %s"):format(chunk, info.currentline, message) end
    level = level + 1
  end
end

--- Calls a function of the script. nil, message, "script" when it raises; else true, and what it returns.
function Script:call(f, ...)
  local ok, result = xpcall(f, self.handler, ...)
  if ok then return true, result end
  return nil, result, "script"
end

-- ------------------------------------------------------------------------------------------------------------------------------ loading

local function read(path)
  local f, message = io.open(path, "rb")
  if not f then return nil, message end
  local source = f:read "*a"
  f:close()
  if not source then return nil, path .. ": it cannot be read" end
  return source:gsub("^#[^\n]*", "")
end

-- Lua shortens longer names in its messages.
local function chunk_of(path) return #path < 58 and path or path:match "[^/]*$" end

-- What the script sees: all that there is, a `print` that does not run into the progress bar, and its own `arg`. What it sets stays its
-- own.
local function environment(path, arguments, print_line)
  local env = setmetatable({ print = print_line, arg = { [0] = path } }, { __index = _G })
  env._G = env
  for i, argument in ipairs(arguments) do env.arg[i] = argument end
  return env
end

--- Runs the file: the table that it returns, and its chunk's name. `arguments` are its `...`. nil, message.
function script.evaluate(path, arguments, print_line)
  local source, why = read(path)
  if not source then return nil, why end
  local chunk = chunk_of(path)
  arguments = arguments or {}
  local f, message = load(source, "@" .. chunk, "t", environment(path, arguments, print_line or print))
  if not f then return nil, message end
  local function handler(raised) return locate(chunk, raised) end
  local unpack = table.unpack or unpack
  local ok, result = xpcall(function() return f(unpack(arguments)) end, handler)
  if not ok then return nil, result end
  if type(result) ~= "table" then return nil, ("%s: it returns a %s; a table expected"):format(chunk, type(result)) end
  return result, chunk
end

-- ------------------------------------------------------------------------------------------------------------------------- definitions

local function definition_of(name, given, path, read_configs)
  local configs, policy = policies.take(given, path)
  if not configs then return nil, policy end
  local ok, config, partitions = pcall(read_configs or core.configs, configs)
  if not ok then return nil, config end
  return { name = name, config = config, partitions = partitions, given = configs, policy = policy }
end

--- Checks definitions of topics in the file `path`, { name = {configs}, ... }: each as { name=, config={dotted name = value}, partitions=,
--- given=, policy={name=, text=} or nil }, sorted. `read_configs` tells what configs mean, and raises. nil, message.
function script.definitions(topics, path, read_configs)
  local list = {}
  for name, given in pairs(topics) do
    if type(name) ~= "string" then return nil, ("names of topics are strings, got a %s"):format(type(name)) end
    if type(given) ~= "table" then return nil, ("topic '%s': a table of configs expected, got %s"):format(name, type(given)) end
    if name == offsets.TOPIC then return nil, ("topic '%s': it is the store's own"):format(name) end
    local legal, why = core.check_topic_name(name)
    if not legal then return nil, why end
    local definition, message = definition_of(name, given, path, read_configs)
    if not definition then return nil, ("topic '%s': %s"):format(name, message) end
    list[#list + 1] = definition
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- ------------------------------------------------------------------------------------------------------------------------- the fields

local FIELDS = {                          -- the type of a field, or what else it may be
  topics = "table", from = "table", group = "string", key = "function", init = "function", on_record = "function", on_done = "function",
  commit_every = "number", dead_letter = "string", on_corrupt = "function", isolation = "word",
}
local WORDS = {
  commit_every = { [false] = "false" }, on_corrupt = { fail = '"fail"', skip = '"skip"' },
  isolation = { committed = '"committed"', uncommitted = '"uncommitted"' },
}

local function field_names()
  local names = {}
  for name in pairs(FIELDS) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function check_field(name, value)
  local is, words = FIELDS[name], WORDS[name]
  if not is then return nil, ("there is no field '%s'; there are %s"):format(tostring(name), table.concat(field_names(), ", ")) end
  if type(value) == is or words and words[value] then return true end
  local may = { is ~= "word" and is or nil }
  for _, word in pairs(words or {}) do may[#may + 1] = word end
  table.sort(may)
  return nil, ("%s: %s expected, got %s"):format(name, table.concat(may, " or "), check.shown(value))
end

local function check_fields(given)
  for name, value in pairs(given) do
    local ok, message = check_field(name, value)
    if not ok then return nil, message end
  end
  if not given.on_record then return nil, "on_record: function expected, got nil" end
  local every = given.commit_every
  if every and (every < 1 or every % 1 ~= 0) then return nil, "commit_every: a whole number of 1 or more, or false, expected" end
  return true
end

local function names_in(list, what)
  local names = {}
  for i, name in ipairs(list) do
    if type(name) ~= "string" then return nil, ("%s: [%d]: a topic's name expected, got %s"):format(what, i, check.shown(name)) end
    names[i] = name
  end
  return names
end

-- `topics` has names of topics that are there, and definitions of others.
local function split(topics)
  local names, message = names_in(topics, "topics")
  if not names then return nil, message end
  local defined = {}
  for name, config in pairs(topics) do
    if type(name) == "string" then defined[name] = config end
  end
  return names, defined
end

-- What is read: `from`, else all of `topics` but the one for dead letters.
local function to_read(given, names, definitions)
  local list, seen = {}, {}
  local function add(name)
    if not seen[name] then list[#list + 1], seen[name] = name, true end
  end
  local from, message = names_in(given.from or names, "from")
  if not from then return nil, message end
  for _, name in ipairs(from) do
    if given.from or name ~= given.dead_letter then add(name) end
  end
  for _, d in ipairs(given.from and {} or definitions) do
    if d.name ~= given.dead_letter then add(d.name) end
  end
  if seen[given.dead_letter] then return nil, "dead_letter: it is a topic that is read" end
  if given.dead_letter == offsets.TOPIC then return nil, "dead_letter: it is the topic of commits" end
  return list
end

local function fill(self, given, read_configs)
  local ok, message = check_fields(given)
  if not ok then return nil, message end
  local names, defined = split(given.topics or {})
  if not names then return nil, defined end
  self.definitions, message = script.definitions(defined, self.path, read_configs)
  if not self.definitions then return nil, message end
  self.reads, message = to_read(given, names, self.definitions)
  if not self.reads then return nil, message end
  for name in pairs(FIELDS) do
    if name ~= "topics" and name ~= "from" then self[name] = given[name] end
  end
  if self.commit_every == nil then self.commit_every = 1000 end
  self.group = self.group or self.path:match "[^/]*$":gsub("%.lua$", "")
  return self
end

--- A script for `sediment run`: its functions and settings by their names, `definitions` of topics, `reads` {names}. nil, message.
function script.load(path, arguments, print_line, read_configs)
  local given, chunk = script.evaluate(path, arguments, print_line)
  if not given then return nil, chunk end
  local self = setmetatable({ path = path, chunk = chunk, handler = function(raised) return locate(chunk, raised) end }, Script)
  local ok, message = fill(self, given, read_configs)
  if not ok then return nil, chunk .. ": " .. message end
  return self
end

return script

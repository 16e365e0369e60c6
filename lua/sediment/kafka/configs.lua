-- Topic configs of a cluster. Those that a topic here has as well are read by the same rules, units and all; Kafka has some more.
local core = require "sediment.core"
local check = require "sediment.check"

local configs = {}

-- What Kafka has beyond, and how a value is read: as another config is, or as what it is.
local MORE = {
  ["min.insync.replicas"] = "number", ["unclean.leader.election.enable"] = "preallocate", ["remote.storage.enable"] = "preallocate",
  ["remote.log.copy.disable"] = "preallocate", ["remote.log.delete.on.disable"] = "preallocate",
  ["local.retention.ms"] = "retention.bytes ms", ["local.retention.bytes"] = "retention.bytes",
  ["leader.replication.throttled.replicas"] = "text", ["follower.replication.throttled.replicas"] = "text",
}

local BEYOND = 2 ^ 63

local function whole_text(value)
  if value >= BEYOND then return "9223372036854775807" end
  return ("%.0f"):format(value):gsub("^%-0$", "0")
end

-- As Kafka writes it. Integers of Lua 5.4 go past 2^53.
local function text_of(value)
  if type(value) ~= "number" then return tostring(value) end
  if math.type and math.type(value) == "integer" then return ("%d"):format(value) end
  return (value % 1 == 0 and whole_text(value) or ("%.17g"):format(value))
end

-- What a config that Kafka alone has is given as.
local function read_more(name, value)
  local as = MORE[name]
  if as == "text" then return tostring(value) end
  if as == "number" then
    local n = tonumber(value)
    if not n or n % 1 ~= 0 then error(("config '%s': %s is not an integer"):format(name, tostring(value)), 0) end
    return n
  end
  local like = as:match "%S+"
  -- A time has no rule of its own that lets -2 through: days and the like are read by one that has, then checked by Kafka.
  if as:find " ms" and type(value) == "string" and not tonumber(value) then like = "retention.ms" end
  local ok, read = pcall(core.configs, { [like] = value })
  if ok then return read[like] end
  error((tostring(read):gsub("'" .. like .. "'", "'" .. name .. "'")), 0)
end

local function dotted(name) return type(name) == "string" and (name:gsub("_", ".")) end

local function replication_of(value)
  if check.whole(value) and value >= 1 and value <= 32767 then return value end
  error("config 'replication': " .. check.shown(value) .. " is not a number of replicas, from 1 to 32767", 0)
end

--- What a table of configs means: { dotted name = value }, partitions, replication, each nil when it is not in there. Mistakes are raised.
function configs.read(given)
  local ours, values, replication = {}, {}, nil
  for name, value in pairs(given) do
    local full = dotted(name)
    if name == "replication" then replication = replication_of(value)
    elseif full and MORE[full] then
      if values[full] ~= nil then error("config '" .. full .. "': it is given twice, with dots and with underscores", 0) end
      values[full] = read_more(full, value)
    else ours[name] = value end
  end
  local read_ours, partitions = core.configs(ours)
  for name, value in pairs(read_ours) do values[name] = value end
  return values, partitions, replication
end

--- The same of a method's argument.
function configs.take(method, given)
  if type(given) ~= "table" then check.refuse(method, 2, "config: table expected, got " .. type(given), 2) end
  return configs.read(given)
end

--- Values as Kafka takes them.
function configs.texts(values)
  local texts = {}
  for name, value in pairs(values) do texts[name] = text_of(value) end
  return texts
end

-- A value that a cluster tells, as one here is.
local function value_of(name, text)
  local ok, read_values = pcall(core.configs, { [name] = text })
  if ok and read_values[name] ~= nil then return read_values[name] end
  if text == "true" or text == "false" then return text == "true" end
  return MORE[name] ~= "text" and tonumber(text) or text
end

--- In place: the texts of a description become values.
function configs.understand(described)
  for name, config in pairs(described) do config.value = value_of(name, config.value) end
  return described
end

--- Names of configs that are to be reset, dotted, once each. Raised: what is no list of names.
function configs.names(method, given)
  if given == nil then return {} end
  if type(given) ~= "table" then check.refuse(method, 3, "names: an array of config names expected, got " .. type(given), 2) end
  local list = {}
  for i, name in ipairs(given) do
    if type(name) ~= "string" then check.refuse(method, 3, "names: string expected, got " .. type(name), 2) end
    list[i] = dotted(name)
  end
  return list
end

return configs

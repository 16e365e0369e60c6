-- What sediment.open takes for a cluster: its address and its options.
local core = require "sediment.core"
local check = require "sediment.check"

local options = {}

local MS_MIN, MS_MAX = 100, 3600000
local KNOWN = {
  readonly = "boolean", create = "boolean", background = "boolean", defaults = "table", options = "table", clock = "function",
  timeout_ms = "count",
}

local UP = 3                              -- check.refuse raises at the caller of sediment.open

--- "kafka://a:1,b" -> "a:1,b:9092". What is wrong is raised at the caller of sediment.open.
function options.servers(path)
  local list = {}
  local rest = path:gsub("^kafka://", ""):gsub("/$", "")
  for server in (rest .. ","):gmatch "([^,]*)," do
    local host, port = server:match "^(%[[%x:.]+%])(.*)$"
    if not host then host, port = server:match "^([%w._-]+)(.*)$" end
    local number = tonumber((port or ""):match "^:(%d+)$")
    if not host or not (port == "" or (number and number >= 1 and number <= 65535)) then
      check.refuse("open", 1, ("path: kafka://host:port[,host:port...] expected, got '%s'"):format(path:sub(1, 200)), UP)
    end
    list[#list + 1] = port == "" and host .. ":9092" or server
  end
  return table.concat(list, ",")
end

local function text_of(name, value)
  if type(value) == "string" then return value end
  if type(value) == "boolean" then return tostring(value) end
  if type(value) == "number" and value % 1 == 0 and math.abs(value) <= 2 ^ 53 then return core.key(value) end
  if type(value) == "number" then return tostring(value) end
  check.refuse("open", 2, ("options '%s': string, number or boolean expected, got %s"):format(name, type(value)), UP + 1)
end

-- Settings of librdkafka by Kafka's names, as texts.
local function settings_of(given)
  local settings = {}
  for name, value in pairs(given) do
    if type(name) ~= "string" then check.refuse("open", 2, "options: names of settings are strings, got a " .. type(name), UP) end
    settings[name] = text_of(name, value)
  end
  return settings
end

local function check_values(given)
  for name, value in pairs(given) do
    local is = KNOWN[name]
    if not is then check.refuse("open", 2, "unknown option " .. check.shown(name), UP) end
    local fits = type(value) == is or (is == "count" and check.whole(value) and value >= MS_MIN and value <= MS_MAX)
    local wanted = is == "count" and ("a whole number from %d to %d"):format(MS_MIN, MS_MAX) or is
    if not fits then check.refuse("open", 2, name .. ": " .. wanted .. " expected, got " .. check.shown(value), UP) end
  end
end

--- The options as core.open takes them: settings, timeout_ms (nil: the default), readonly, clock, defaults.
function options.take(given)
  if given == nil then given = {} end
  if type(given) ~= "table" then check.refuse("open", 2, "table of options expected, got " .. type(given), UP - 1) end
  check_values(given)
  return settings_of(given.options or {}), given.timeout_ms, given.readonly or false, given.clock, given.defaults
end

return options

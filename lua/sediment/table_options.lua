-- The options of store:table, and what is misuse of them.
local all = require "sediment.check"

local table_options = {}

local SNAPSHOT_EVERY = 100000             -- records applied
local SCHEMA_MAX, NAME_MAX, NAME = 1000, 64, "^[a-zA-Z0-9_-]+$"

-- Each check gives what is wrong with a value, nil: nothing.

local function expect(kind, name, value)
  if type(value) ~= kind then return name .. ": " .. kind .. " expected, got " .. type(value) end
end

local function check_function(name, value) return expect("function", name, value) end

local function check_functions(name, functions)
  if type(functions) ~= "table" then return expect("table", name, functions) end
  for key, value in pairs(functions) do
    if type(key) ~= "string" then return name .. ": strings expected as names of indexes, got " .. type(key) end
    if type(value) ~= "function" then return expect("function", name .. "." .. key, value) end
  end
end

local function check_snapshot(name, value)
  if type(value) == "boolean" or (type(value) == "string" and #value <= NAME_MAX and value:find(NAME)) then return nil end
  local got = type(value) == "string" and "'" .. value:sub(1, 80) .. "'" or type(value)
  return name .. ": true, or a name of up to " .. NAME_MAX .. " of a-z A-Z 0-9 _ - expected, got " .. got
end

local function check_schema(name, value)
  if type(value) ~= "string" then return expect("string", name, value) end
  if #value > SCHEMA_MAX then return name .. ": at most " .. SCHEMA_MAX .. " bytes expected, got " .. #value end
end

local function check_every(name, value)
  if type(value) ~= "number" then return expect("number", name, value) end
  if value < 1 or value ~= value then return name .. ": 1 or more records expected, got " .. tostring(value) end
end

local CHECKS = {
  decode = check_function, on_change = check_function, index = check_functions,
  snapshot = check_snapshot, schema = check_schema, snapshot_every = check_every,
}

local function problem(given)
  if type(given) ~= "table" then return "table of options expected, got " .. type(given) end
  for name, value in pairs(given) do
    local check = CHECKS[name]
    if not check then return all.unknown_option(name, CHECKS) end
    local wrong = check(name, value)
    if wrong then return wrong end
  end
  if not given.snapshot and (given.schema or given.snapshot_every) then return "schema and snapshot_every: only with snapshot" end
end

--- The options, checked, and with what was left out. What is wrong is raised at the caller of the caller.
function table_options.take(given)
  given = given == nil and {} or given
  local wrong = problem(given)
  if wrong then error("bad argument #2 to 'table' (" .. wrong .. ")", 3) end
  return {
    decode = given.decode, on_change = given.on_change, index = given.index,
    snapshot_name = given.snapshot == true and "" or given.snapshot,
    -- What decode made is no record's value, whatever the program says of its version.
    schema = (given.decode and "decoded " or "plain ") .. (given.schema or ""),
    snapshot_every = given.snapshot_every or SNAPSHOT_EVERY,
  }
end

return table_options

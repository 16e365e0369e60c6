-- What the methods that are written in Lua check of what they are called on and with.
local core = require "sediment.core"

local check = {}

--- Raises, at the caller of the method, unless `store` is a store that is open.
function check.store(store, method)
  local class = type(store) == "userdata" and getmetatable(store)
  if not class or class.__name ~= "sediment.store" then
    error("bad argument #1 to '" .. method .. "' (sediment.store expected, got " .. type(store) .. "; call it with ':')", 3)
  end
  if core.life(store).closed then error("use after close: the store is closed", 3) end
end

--- A whole number that both Luas have exactly.
function check.whole(value) return type(value) == "number" and value % 1 == 0 and math.abs(value) <= 2 ^ 53 end

--- Raises at the caller of the method, which is so many functions up.
function check.refuse(method, number, what, up)
  error(("bad argument #%d to '%s' (%s)"):format(number, method, what), up + 2)
end

--- For messages.
function check.shown(value)
  if type(value) == "string" then return "'" .. value .. "'" end
  return type(value) == "number" and tostring(value) or type(value)
end

--- For a message: there is no option of that name; which there are.
function check.unknown_option(name, known)
  local names = {}
  for option in pairs(known) do names[#names + 1] = option end
  table.sort(names)
  return ("unknown option %s; there %s %s"):format(check.shown(name), names[2] and "are" or "is", table.concat(names, ", "))
end

--- A table of options, or {} for nil, whose names and types are in `known`; "count" is a whole number of 0 or more. For the method itself,
--- or for what is so many functions below it.
function check.options(method, number, given, known, below)
  local up = 2 + (below or 0)
  if given == nil then return {} end
  if type(given) ~= "table" then check.refuse(method, number, "table of options expected, got " .. type(given), up) end
  for name, value in pairs(given) do
    local is = known[name]
    if not is then check.refuse(method, number, check.unknown_option(name, known), up) end
    if is == "count" then
      local fits = check.whole(value) and value >= 0
      if not fits then check.refuse(method, number, name .. ": a whole number of 0 or more expected, got " .. check.shown(value), up) end
    elseif type(value) ~= is then check.refuse(method, number, name .. ": " .. is .. " expected, got " .. type(value), up) end
  end
  return given
end

--- Raises what a method raised that was called by pcall, at the line `level` above. It was not called as a method: it counts its object,
--- the first argument, if `self` is 1, and may not know its name.
function check.raise_to(level, call, self, message)
  if type(message) ~= "string" then error(message, 0) end
  local before
  repeat before, message = message, message:gsub("^%S*sediment[%w_/]*%.lua:%d+: ", "") until message == before
  message = message:gsub("^bad argument #(%d+) to '([^']*)'", function(n, name)
    return ("bad argument #%d to '%s'"):format(name == call and n or math.max(1, n - self), call)     -- 1 is the object, too
  end)
  error(message, level + 1)
end

--- The results of such a pcall, or what it raised.
function check.relay_to(level, call, ok, ...)
  if ok then return ... end
  check.raise_to(level, call, 1, (...))
end

--- What a method answered, which inside an iteration nobody looks at: a failure is raised, as the object that the core's iterators raise.
--- nil alone is none.
function check.or_throw(result, message, code)
  if result == nil and message ~= nil then error(core.error(message, code), 0) end
  return result
end

--- Raises at the caller of the method, `level` above, unless the argument is nothing or a number of milliseconds.
function check.timeout(method, argument, timeout_ms, level)
  if timeout_ms == nil then return end
  local whole = type(timeout_ms) == "number" and timeout_ms % 1 == 0
  if whole and timeout_ms >= 0 then return end
  local wanted = whole and "0 or more" or "a whole number within 2^53"
  error(("bad argument #%d to '%s' (timeout_ms: %s expected, got %s)"):format(argument, method, wanted, tostring(timeout_ms)), level + 1)
end

return check

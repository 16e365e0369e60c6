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

--- Raises at the caller of the method, `level` above, unless the argument is nothing or a number of milliseconds.
function check.timeout(method, argument, timeout_ms, level)
  if timeout_ms == nil then return end
  local whole = type(timeout_ms) == "number" and timeout_ms % 1 == 0
  if whole and timeout_ms >= 0 then return end
  local wanted = whole and "0 or more" or "a whole number within 2^53"
  error(("bad argument #%d to '%s' (timeout_ms: %s expected, got %s)"):format(argument, method, wanted, tostring(timeout_ms)), level + 1)
end

return check

-- What the methods that are written in Lua check of the store that they are called on.
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

return check

-- What the methods that are written in Lua check of what they are called on. They raise what is wrong with it anywhere: objects.method puts
-- that to the method's caller.
local core = require "sediment.kafka.core"
local check = require "sediment.check"

local objects = {}

local function is(object, class)
  local meta = type(object) == "userdata" and getmetatable(object)
  return meta and meta.__name == class
end

--- Raises unless `store` is a cluster's store that is open.
function objects.store(store, method)
  if not is(store, "sediment.kafka.store") then
    error(("bad argument #1 to '%s' (sediment.store expected, got %s; call it with ':')"):format(method, type(store)), 3)
  end
  if core.life(store).closed then error("use after close: the store is closed", 3) end
end

--- The same of a topic; its name.
function objects.topic(topic, method)
  if not is(topic, "sediment.kafka.topic") then
    error(("bad argument #1 to '%s' (sediment.topic expected, got %s; call it with ':')"):format(method, type(topic)), 3)
  end
  local open, name = pcall(core.name, topic)
  if not open then error((tostring(name):gsub("^.-(use after close)", "%1")), 3) end
  return name
end

--- A partition's number; 0 when it is left out. What is none is raised at the caller of the method.
function objects.partition(method, argument, p)
  if p == nil then return 0 end
  if not check.whole(p) then check.refuse(method, argument, "partition: a whole number expected, got " .. check.shown(p), 2) end
  return p
end

local function results(...) return ... end

--- A method as programs call it: what it raises, wherever in here, is raised at its caller.
function objects.method(name, f)
  return function(...) return results(check.relay_to(3, name, pcall(f, ...))) end
end

--- A method that has no meaning on a cluster.
function objects.unsupported(what, name, why)
  return objects.method(name, function(self)
    objects[what](self, name)
    return nil, ("%s: %s"):format(name, why), "unsupported"
  end)
end

return objects

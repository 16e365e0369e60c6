-- State tables whose updates let other requests run in between.
--
-- An update counts what it reads, and gives way after a piece of work, inside its callbacks: there a table may be read by others, and a
-- second update is refused (sediment/table.lua). Here the second one waits for the first.
local state_table = require "sediment.table"
local pacer = require "resty.sediment.pace"
local phase = require "resty.sediment.phase"

local STEP = 0.001                        -- seconds

local function paced_decode(pace, decode)
  return function(value, key)
    pace(#value)
    if decode then return decode(value, key) end
    return value
  end
end

-- Tombstones, and keys that are swept, have nothing to decode.
local function paced_on_change(pace, on_change)
  return function(key, new, old)
    if new == nil then pace(0) end
    if on_change then return on_change(key, new, old) end
  end
end

-- What is no function is left as it is, to be refused.
local function is_callback(value) return value == nil or type(value) == "function" end

local function paced(options)
  if options ~= nil and type(options) ~= "table" then return options end
  local copy, pace = {}, pacer.new()
  for name, value in pairs(options or {}) do copy[name] = value end
  if is_callback(copy.decode) then copy.decode = paced_decode(pace, copy.decode) end
  if is_callback(copy.on_change) then copy.on_change = paced_on_change(pace, copy.on_change) end
  return copy
end

-- An update that waits while another request's is under way, where it can; elsewhere, and inside a callback of its own, it answers `busy`
-- as the plain one does. The coroutine that updates is held weakly: when its request is cut off it is collected, and lets go of the table.
local function waiting(update)
  local owner = setmetatable({}, { __mode = "v" })

  -- Also tells whether the caller's own update was under way already.
  local function try(self)
    local before, me = owner.thread, coroutine.running()
    owner.thread = me
    local ok, changes, message, code = pcall(update, self)
    owner.thread = before
    if not ok then error(changes, 0) end
    return before == me, changes, message, code
  end

  return function(self)
    while true do
      local nested, changes, message, code = try(self)
      if code ~= "busy" or nested or not phase.can_yield() then return changes, message, code end
      ngx.sleep(STEP)
    end
  end
end

-- store:table(name, options) of the plain store. The table has the methods of any, but for `update`.
local function open(store, name, options)
  local state, message, code = state_table.open(store, name, paced(options))
  if not state then return nil, message, code end
  rawset(state, "update", waiting(state.update))
  return state
end

return { open = open }

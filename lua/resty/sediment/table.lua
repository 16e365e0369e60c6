-- State tables whose work lets other requests run in between.
--
-- An update gives way after a piece of work, in front of a record: there a table may be read by others, and a second update is refused
-- (sediment/table.lua). Here the second one waits for the first. What would block for long, a snapshot, is left to the phases in which
-- nobody waits for the worker.
local check = require "sediment.check"
local pacer = require "resty.sediment.pace"
local phase = require "resty.sediment.phase"
local poller = require "resty.sediment.poller"
local state_table = require "sediment.table"
local topic_handle = require "resty.sediment.topic"

local STEP = 0.001                        -- seconds

-- A method that, while another request's update is under way, waits where it can; elsewhere, and inside a callback of its own, it answers
-- `busy` as the plain one does. The coroutine that updates is held weakly: when its request is cut off it is collected, and lets go of the
-- table. The second result tells whether an update that is under way is the caller's.
local function waiting()
  local owner = setmetatable({}, { __mode = "v" })

  -- Also tells whether the caller's own update was under way already.
  local function try(method, self, ...)
    local before, me = owner.thread, coroutine.running()
    owner.thread = me
    local ok, changes, message, code = pcall(method, self, ...)
    owner.thread = before
    if not ok then error(changes, 0) end
    return before == me, changes, message, code
  end

  local function wrap(method)
    return function(self, ...)
      while true do
        local nested, changes, message, code = try(method, self, ...)
        if code ~= "busy" or nested or not phase.can_yield() then return changes, message, code end
        ngx.sleep(STEP)
      end
    end
  end

  return wrap, function() return owner.thread == coroutine.running() end
end

-- -------------------------------------------------------------------------------------------------------------- waiting for records

-- In all partitions together, for one number is what a poller waits for.
local function records_in(topic)
  local n = topic:partitions()
  if not n then return nil end
  local sum = 0
  for p = 0, n - 1 do
    local log_end = topic:latest(p)
    if not log_end then return nil end
    sum = sum + log_end
  end
  return sum
end

local function seen_by(state)
  local sum, list = 0, state_table.awaited(state)
  for i = 3, #list, 3 do sum = sum + list[i] end
  return sum
end

-- table:wait, yielding; `look` is the method that does not wait. An exiting worker does not wait.
local function waits(plain_wait, look)
  local records = nil

  local function wait_yielding(self, timeout_ms)
    local left = timeout_ms and timeout_ms / 1000 or math.huge
    records = records or poller.new(function() return not ngx.worker.exiting() and records_in(self.topic) end)
    while true do
      local changes, message, code = look(self, 0)
      if changes ~= 0 or left <= 0 or ngx.worker.exiting() then return changes, message, code end
      left = records:wait(seen_by(self), left)
    end
  end

  return function(self, timeout_ms)
    check.timeout("wait", 1, timeout_ms, 2)
    if timeout_ms == 0 then return look(self, 0) end
    if phase.to_wait("wait", 2) == "block" then return plain_wait(self, timeout_ms) end
    return wait_yielding(self, timeout_ms)
  end
end

-- ------------------------------------------------------------------------------------------------------------------------- snapshots

local function snapshot(plain)
  return function(self)
    phase.to_work("snapshot", 2)
    return plain(self)
  end
end

-- A snapshot that cannot be written now is not: the next start reads a longer tail.
local function close(plain)
  return function(self)
    if not phase.can_block() then self.snapshot_name = false end
    return plain(self)
  end
end

-- None is written in the midst of an update.
local function without_haste(options)
  if type(options) ~= "table" or not options.snapshot then return options end
  phase.to_work("table{snapshot=}", 5)
  local copy = {}
  for name, value in pairs(options) do copy[name] = value end
  local every = copy.snapshot_every
  if every == nil or (type(every) == "number" and every >= 1) then copy.snapshot_every = math.huge end
  return copy
end

-- store:table(name, options) of the plain store. `handle` is the store's: put and delete append through a topic of it, which yields where
-- it waits for the disk, and read on as update does.
local function open(handle, store, name, options)
  local state, message, code = state_table.open_paced(pacer.new(), store, name, without_haste(options))
  if not state then return nil, message, code end
  local wrap, is_ours = waiting()
  local is_updated = state.is_inside
  state.writer, state.read_on = topic_handle.new(handle, name, nil, state.topic), wrap(state.read_on)
  state.is_inside = function(self) return is_updated(self) and is_ours() end
  for method, with in pairs {
    update = wrap(state.update), wait = waits(state.wait, wrap(state.wait)),
    snapshot = snapshot(state.snapshot), close = close(state.close),
  } do rawset(state, method, with) end
  return state
end

return { open = open }

-- Waiting without blocking: for each partition of which anybody in this worker waits for something, one timer looks every millisecond how
-- far it is, and wakes those who wait for no more. So a thousand waiting requests cost what one does.
--
-- Who waits does not depend on it: after a slice of time he looks by himself and sees that a poller runs. It may have found no timer, and
-- nginx drops timers that are too many.
local semaphore = require "ngx.semaphore"

local Poller = {}
Poller.__index = Poller

local STEP, SLICE = 0.001, 1              -- seconds
local WEAK = { __mode = "k" }             -- a request that was cut off while it waited leaves nothing behind

-- `look`, given the least number that is waited for, tells what has been reached: who waits for less is woken. nil, false or an error: all
-- are, for they had better look themselves.
local function new(look)
  return setmetatable({
    look = look,
    waiting = setmetatable({}, WEAK),     -- semaphore -> the number that must be passed
    lowest = math.huge,                   -- no one waits for less
    beat = nil,                           -- when the timer ran last; nil: none does
  }, Poller)
end

local function wake_below(self, reached)
  local lowest = math.huge
  for sema, number in pairs(self.waiting) do
    if number < reached then
      self.waiting[sema] = nil
      sema:post(1)
    elseif number < lowest then
      lowest = number
    end
  end
  self.lowest = lowest
end

local function run(_, self)
  while next(self.waiting) do
    local ok, reached = pcall(self.look, self.lowest)
    if not (ok and reached) then break end
    if reached > self.lowest then wake_below(self, reached) end
    self.beat = ngx.now()
    ngx.sleep(STEP)
  end
  self.beat = nil
  wake_below(self, math.huge)
end

local function see_that_it_runs(self)
  if self.beat and ngx.now() - self.beat < SLICE then return end
  self.beat = ngx.timer.at(0, run, self) and ngx.now() or nil
end

-- Waits until `number` is passed, for a slice of the `left` seconds at most; returns the seconds that are left then.
function Poller:wait(number, left)
  local sema, slice = assert(semaphore.new()), math.min(left, SLICE)
  self.waiting[sema] = number
  self.lowest = math.min(self.lowest, number)
  see_that_it_runs(self)
  local woken = sema:wait(slice)
  self.waiting[sema] = nil
  return woken and left or left - slice
end

return { new = new }

-- Appends that are under way, and what has become of them: the part of topic:append_async that all stores have in common.
--
-- A store's Reports know those of its pending objects that are not done, and which on_done are due. They lie in the table that core.life
-- gives, so they go with the store. What fetches results is the store's own, the function `pull`:
--     pull(reports, ms, hurry) -> true | nil, message, code      settles what has come, waiting so long at most if nothing has; with
--                                                                hurry it does not wait for company
-- `to_wait`, if it is there, raises where nothing may wait.
-- Nothing but deliver, wait, flush and close calls an on_done: so a program never meets its own code inside an append.
local check = require "sediment.check"
local core = require "sediment.core"

local pending = {}

local DUE_MAX = 100000                    -- calls of on_done that may wait for a deliver
local SLICE_MS = 200                      -- between two of them the signals' handlers have their turn
local FOREVER = math.huge

-- ------------------------------------------------------------------------------------------------------------------------------- reports

local Reports = {}
Reports.__index = Reports

-- A place holds the pending object that is not done, or, if it is free, the number of the next free one.
local function new_reports(store, pull)
  return setmetatable({
    store = store, pull = pull, forks = core.forks(),
    places = {}, free = 1,                -- the first free place
    open = 0,                             -- how many are not done
    fresh = 0,                            -- reports that no deliver has counted
    failed = 0, failure = nil,            -- how many of them failed, and the last one that did
    due = {}, first = 1, last = 0,        -- whose on_done is to be called
  }, Reports)
end

--- The reports of a store; nil: it has begun nothing yet, and `pull` is not given.
function pending.reports_of(life, store, pull)
  local reports = life.reports
  if not reports and pull then
    reports = new_reports(store, pull)
    life.reports = reports
  end
  return reports
end

function Reports:is_here() return self.forks == core.forks() end

--- Whether so many reports wait for a deliver that no more are taken; then also what to answer.
function Reports:is_busy()
  if self.last - self.first + 1 < DUE_MAX then return false end
  return true, ("append_async: %d reports wait to be told to on_done: call store:deliver()"):format(DUE_MAX), "busy"
end

--- Puts a pending object into the place self.free.
function Reports:enter(p)
  local place = self.free
  local next_free = self.places[place]
  self.places[place], self.free, p.place = p, next_free or place + 1, place
  self.open = self.open + 1
end

local function leave(self, p)
  self.places[p.place], self.free, p.place = self.free, p.place, nil
  self.open = self.open - 1
end

--- The result of a pending object: offset, partition, or nil, message, code.
function Reports:settle(p, result, second, code)
  if p.place then leave(self, p) end
  p.is_done, p[1], p[2], p[3] = true, result, second, code
  self.fresh = self.fresh + 1
  if not result then self.failed, self.failure = self.failed + 1, p end
  if p.on_done then self.last = self.last + 1 self.due[self.last] = p end
end

local function result_of(p)
  if p[1] then return p[1], p[2] end
  return nil, p[2], p[3]
end

-- One that a call makes due waits for the next deliver: else there might be no end. What a call raises is the caller's; others stay due.
local function call_due(self, last)
  if not self:is_here() then return end
  last = last or self.last
  while self.first <= last do
    local p = self.due[self.first]
    self.due[self.first], self.first = nil, self.first + 1
    p.on_done(result_of(p))
  end
end

-- By `pull`, but in a forked child: there everything is the parent's.
local function fetch(self, ms, hurry)
  if self:is_here() then return self:pull(ms, hurry) end
  return nil, "the store was opened before a fork; open it anew in this process", "forked"
end

-- One slice of waiting. False: the time is over.
local function step(self, until_ms, hurry)
  local left = until_ms - core.monotonic_ms()
  local pulled, message, code = fetch(self, math.max(0, math.min(left, SLICE_MS)), hurry)
  if not pulled then return nil, message, code end
  return left > 0
end

local function until_of(timeout_ms) return timeout_ms and core.monotonic_ms() + timeout_ms or FOREVER end

local function open_ones(self)
  local list = {}
  for place = 1, #self.places do
    if type(self.places[place]) == "table" then list[#list + 1] = self.places[place] end
  end
  return list
end

-- Waits for what is under way now, not for what calls may begin meanwhile. True, or nil, message, code.
local function finish(self, timeout_ms)
  local until_ms, more, message, code = until_of(timeout_ms), true, nil, nil
  for _, p in ipairs(open_ones(self)) do
    while not p.is_done and more do more, message, code = step(self, until_ms, true) end
    if not p.is_done then return nil, message or ("appends are still under way after %d ms"):format(timeout_ms), code or "timeout" end
  end
  return true
end

-- ----------------------------------------------------------------------------------------------------------------------- pending objects

local Pending = { __name = "sediment.pending" }
Pending.__index = Pending

--- A new one, not done.
function pending.new(reports, options)
  return setmetatable({ false, false, reports = reports, is_done = false, on_done = options and options.on_done }, Pending)
end

local function check_self(self, method)
  if getmetatable(self) == Pending then return end
  error(("bad argument #1 to '%s' (sediment.pending expected, got %s; call it with ':')"):format(method, type(self)), 3)
end

function Pending:done()
  check_self(self, "done")
  if not self.is_done then fetch(self.reports, 0) end
  return self.is_done
end

function Pending:wait(timeout_ms)
  check_self(self, "wait")
  check.timeout("wait", 1, timeout_ms, 2)
  local until_ms, more, message, code = until_of(timeout_ms), true, nil, nil
  if not self.is_done and timeout_ms ~= 0 and self.reports.to_wait then self.reports.to_wait("wait", 2) end
  while not self.is_done and more do more, message, code = step(self.reports, until_ms) end
  call_due(self.reports)
  if self.is_done then return result_of(self) end
  return nil, message or ("the append is not done after %d ms"):format(timeout_ms), code or "timeout"
end

function Pending:__tostring()
  local state = not self.is_done and "under way" or self[1] and ("offset %.0f, partition %d"):format(self[1], self[2]) or self[2]
  return ("%s (%s)"):format(Pending.__name, state)
end

-- ------------------------------------------------------------------------------------------------------------------ methods of the store

--- store:pending of a store's reports, which may be nil.
function pending.count(reports)
  return reports and reports.open + reports.last - reports.first + 1 or 0
end

--- store:deliver
function pending.deliver(reports, timeout_ms)
  if not reports then return 0 end
  local until_ms = until_of(timeout_ms or 0)
  local more, message, code = step(reports, -FOREVER)
  local function waits() return more ~= nil and reports.fresh == 0 and reports.open > 0 and core.monotonic_ms() < until_ms end
  if waits() and reports.to_wait then reports.to_wait("deliver", 2) end
  while waits() do more, message, code = step(reports, until_ms) end
  if more == nil then return nil, message, code end
  local taken = reports.fresh
  reports.fresh = 0
  call_due(reports)
  return taken
end

--- What topic:flush begins with: what was begun before is done, and told.
function pending.flush(reports, timeout_ms)
  if not reports then return true end
  local done, message, code = finish(reports, timeout_ms)
  call_due(reports)
  return done, message, code
end

-- Calls all that are due, whatever one raises; the first of that, in a table.
local function call_all(self)
  local last, first_raised = self.last, nil
  while self.first <= last and self:is_here() do
    local ok, raised = pcall(call_due, self, last)
    if not ok then first_raised = first_raised or { raised } end
  end
  return first_raised
end

local function close(reports, timeout_ms, give_up, plain_close, store)
  reports.failed = 0
  finish(reports, timeout_ms)
  if give_up and reports.open > 0 and reports:is_here() then give_up(reports) end
  local raised = call_all(reports)
  local closed, message, code = plain_close(store)
  if raised then error(raised[1], 0) end
  if not closed or reports.failed == 0 then return closed, message, code end
  return nil, ("%d appends failed; the last: %s"):format(reports.failed, reports.failure[2]), reports.failure[3]
end

-- The reports of the object that a method was called on, if it is one, and its store is open and has any: the method itself tells what is
-- wrong with it.
local function reports_for(life_of, object)
  local there, life = pcall(life_of, object)
  return there and not life.closed and life.reports or nil
end

--- topic:flush by another one. `timeout_of` a store tells how long it may take; without it that is no question.
function pending.flushing(life_of, plain_flush, timeout_of)
  return function(...)
    local reports = reports_for(life_of, (...))
    local done, message, code = pending.flush(reports, reports and timeout_of and timeout_of(reports.store))
    if not done then return nil, message, code end
    return check.relay_to(2, "flush", pcall(plain_flush, ...))
  end
end

--- store:close by another one: what is under way has so long, and is then ended by `give_up`. The store is closed in any case, and what an
--- on_done raises is raised behind that.
function pending.closing(life_of, plain_close, timeout_of, give_up)
  return function(...)
    local reports = reports_for(life_of, (...))
    if not reports then return check.relay_to(2, "close", pcall(plain_close, ...)) end
    local timeout_ms = timeout_of and timeout_of(reports.store)
    return check.relay_to(2, "close", pcall(close, reports, timeout_ms, give_up, plain_close, ...))
  end
end

return pending

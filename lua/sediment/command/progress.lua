-- How far a command is, on stderr: on a terminal one line that is written again and again, otherwise a line now and then.
local core = require "sediment.core"
local text = require "sediment.command.text"

local Progress = {}
Progress.__index = Progress

local DRAW_MS, SAY_MS = 100, 10 * 1000    -- at most so often: on a terminal; elsewhere
local RATE_MS = 2000                      -- a rate is taken over this, up to twice this
local BAR_MIN, BAR_MAX = 5, 20

local function succeeds(command)
  local ok = os.execute(command)
  return ok == true or ok == 0
end

local function columns()
  local pipe = io.popen "stty size <&2 2> /dev/null"
  local size = pipe and pipe:read "*l"
  if pipe then pipe:close() end
  local width = tonumber(size and size:match "^%d+ (%d+)$") or 0
  return width > 0 and width or 80
end

--- Begins. `lag()` tells how many offsets are ahead; `quiet`: nothing is written.
function Progress.new(name, lag, quiet)
  local terminal = not quiet and succeeds "test -t 2"
  local now = core.monotonic_ms()
  local self = {
    name = name, lag = lag, quiet = quiet, terminal = terminal, width = terminal and columns(), drawn = false,
    records = 0, bytes = 0, began = now, due = terminal and now or now + SAY_MS,
    behind = lag() or 0,                                    -- how many offsets were ahead when it began
    mark = { at = now, records = 0, bytes = 0 },            -- what the rate is taken from: the older of two moments, RATE_MS apart
    next_mark = { at = now, records = 0, bytes = 0 },
  }
  return setmetatable(self, Progress)
end

-- ------------------------------------------------------------------------------------------------------------------------- what it says

local function amounts(records, bytes, ms)
  local seconds = math.max(ms, 1) / 1000
  return ("%s/s, %.1f MB/s"):format(text.grouped(records / seconds), bytes / seconds / 1e6)
end

-- By the last seconds.
local function rate(self, now)
  if now - self.next_mark.at >= RATE_MS then
    self.mark, self.next_mark = self.next_mark, { at = now, records = self.records, bytes = self.bytes }
  end
  return amounts(self.records - self.mark.records, self.bytes - self.mark.bytes, now - self.mark.at)
end

-- As long as there is room for it.
local function bar(done, room)
  local percent = ("%3.0f%% "):format(math.floor(done * 100))
  local size = math.min(BAR_MAX, room - #percent - #"[] ")
  if size < BAR_MIN then return percent end
  local filled = math.floor(done * size)
  return ("%s[%s%s] "):format(percent, ("="):rep(filled), (" "):rep(size - filled))
end

-- Without the bar where nothing tells how long it is: of what is followed, at its end.
local function line(self, now)
  local ahead = self.lag() or 0
  local passed = self.behind - ahead
  local said = ("%s, %s, lag %s"):format(text.count(self.records, "record"), rate(self, now), text.grouped(ahead))
  local seconds = (now - self.began) / 1000
  if ahead > 0 and passed > 0 and seconds >= 1 then said = said .. ", " .. text.duration(seconds * ahead / passed) .. " left" end
  if not self.terminal or self.behind == 0 then return said end
  return bar(math.max(0, math.min(1, passed / self.behind)), self.width - 1 - #said) .. said
end

-- ----------------------------------------------------------------------------------------------------------------------------- writing

--- Takes the line away, for what others write to the terminal.
function Progress:erase()
  if self.drawn then io.stderr:write "\r\27[K" end
  self.drawn = false
end

local function show(self, now)
  if self.terminal then io.stderr:write("\r", line(self, now):sub(1, self.width - 1), "\27[K")
  else text.complain(self.name, line(self, now)) end
  self.drawn, self.due = self.terminal, now + (self.terminal and DRAW_MS or SAY_MS)
end

--- Whenever something was done; writes when it is time.
function Progress:tick()
  if self.quiet then return end
  local now = core.monotonic_ms()
  if now >= self.due then show(self, now) end
end

--- A record was handled.
function Progress:add(record)
  self.records = self.records + 1
  self.bytes = self.bytes + #(record.key or "") + #(record.value or "")
  self:tick()
end

--- The last line: how much, how fast, and what else there is to say.
function Progress:finish(rest)
  if self.quiet then return end
  self:erase()
  local ms = core.monotonic_ms() - self.began
  local fast = ms >= 100 and (" (%s)"):format(amounts(self.records, self.bytes, ms)) or ""
  text.complain(self.name, ("%s in %.1f s%s%s"):format(text.count(self.records, "record"), ms / 1000, fast, rest or ""))
end

return Progress

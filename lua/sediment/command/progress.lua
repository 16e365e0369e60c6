-- How far a command is, on stderr: on a terminal one line that is written again and again, otherwise a line now and then.
local core = require "sediment.core"
local text = require "sediment.command.text"

local Progress = {}
Progress.__index = Progress

local DRAW_MS, SAY_MS = 100, 10 * 1000    -- at most so often: on a terminal; elsewhere
local RATE_MS = 2000                      -- what a rate is taken over
local BAR = 20

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
    rate_since = now, rate_records = 0, rate_bytes = 0,     -- what the rate now is taken from
  }
  return setmetatable(self, Progress)
end

-- ------------------------------------------------------------------------------------------------------------------------- what it says

local function amounts(records, bytes, ms)
  local seconds = math.max(ms, 1) / 1000
  return ("%s/s, %.1f MB/s"):format(text.grouped(records / seconds), bytes / seconds / 1e6)
end

-- By the last seconds; the window moves on when it is twice as long as it need be.
local function rate(self, now)
  local said = amounts(self.records - self.rate_records, self.bytes - self.rate_bytes, now - self.rate_since)
  if now - self.rate_since >= 2 * RATE_MS then
    self.rate_since, self.rate_records, self.rate_bytes = now, self.records, self.bytes
  end
  return said
end

local function bar(done)
  local filled = math.floor(done * BAR)
  return ("%3.0f%% [%s%s] "):format(math.floor(done * 100), ("="):rep(filled), (" "):rep(BAR - filled))
end

-- Without the bar where nothing tells how long it is: of what is followed, at its end.
local function line(self, now)
  local ahead = self.lag() or 0
  local passed = self.behind - ahead
  local said = ("%s, %s, lag %s"):format(text.count(self.records, "record"), rate(self, now), text.grouped(ahead))
  if ahead > 0 and passed > 0 then said = said .. ", " .. text.duration((now - self.began) / 1000 * ahead / passed) .. " left" end
  if not self.terminal or self.behind == 0 then return said end
  return bar(math.max(0, math.min(1, passed / self.behind))) .. said
end

-- ----------------------------------------------------------------------------------------------------------------------------- writing

--- Takes the line away, for what others write to the terminal.
function Progress:erase()
  if self.drawn then io.stderr:write "\r\27[K" end
  self.drawn = false
end

local function show(self, now)
  if self.terminal then io.stderr:write("\r", line(self, now):sub(1, self.width - 1), "\27[K")
  else io.stderr:write(self.name, ": ", line(self, now), "\n") end
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
  io.stderr:write(("%s: %s in %.1f s%s%s\n"):format(self.name, text.count(self.records, "record"), ms / 1000, fast, rest or ""))
end

return Progress

-- A changelog and the state that it stands for: 27 years of euro exchange rates in a compacted topic, a record for each currency and day.
--     lua examples/rates.lua [store folder] [csv file]
-- The first run replays the history. A later one finds the store, appends the days that the file has and the topic has not.
-- Source of the data: European Central Bank (data/README.md).
local sediment = require "sediment"

local here = arg[0]:match "^(.*/)" or "./"
local folder = arg[1] or here .. "data/rates-store"
local csv = arg[2] or here .. "data/eurofxref-hist.csv.gz"

local store = assert(sediment.open(folder))
local topic = assert(store:topic("rates", {
  cleanup_policy = "compact",                -- of each currency the last record stays
  segment_bytes = "1MiB",                    -- small, so that there are several segments to look at
  segment_ms = "36500d",                     -- rolling goes by the records' time: the default would begin a segment every 7 days of history
  message_timestamp_after_max_ms = "36500d", -- the default refuses records that are an hour ahead of the clock; this one may be behind
}))

-- ------------------------------------------------------------------------------------------------------------------------- small helpers

-- Midnight UTC of "YYYY-MM-DD" in milliseconds since the epoch; os.time would go by the local time zone.
local function day_ms(text)
  local y, m, d = text:match "^(%d+)-(%d+)-(%d+)$"
  y, m, d = tonumber(y), tonumber(m), tonumber(d)
  if m < 3 then y, m = y - 1, m + 12 end
  local leap_days = math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400)
  return (365 * y + leap_days + math.floor((153 * m - 457) / 5) + d - 719469) * 86400000
end

local function day_of(ms) return os.date("!%Y-%m-%d", math.floor(ms / 1000)) end

local function grouped(n)                    -- 221702 -> "221,702"
  local text = ("%.0f"):format(n):reverse():gsub("%d%d%d", "%0,"):reverse()
  return (text:gsub("^,", ""))
end

local terminal = os.execute "test -t 1"
terminal = terminal == true or terminal == 0

local function progress(format, ...)         -- a line that overwrites itself, on a terminal only
  if terminal then io.write("\r", format:format(...)):flush() end
end

local function show_segments(title)
  local bytes = 0
  print(("\n%s\n  base offset   records       bytes   state"):format(title))
  for _, s in ipairs(assert(topic:segments())) do
    print(("  %11s %9s %11s   %s"):format(grouped(s.base_offset), grouped(s.records), grouped(s.size), s.state))
    bytes = bytes + s.size
  end
  print(("  %33s   together"):format(grouped(bytes)))
end

-- ----------------------------------------------------------------------------------------------------------------- where did we stop?

local last_ms = -1                           -- the last day in the topic
for _, segment in ipairs(assert(topic:segments())) do last_ms = math.max(last_ms, segment.max_timestamp) end

local quoted = {}                            -- currencies that have a rate, as of that day
local state = assert(store:table "rates")
for currency in state:pairs() do quoted[currency] = true end

if last_ms < 0 then print("new store: " .. folder)
else print(("found store: %s: %d currencies up to %s"):format(folder, state:count(), day_of(last_ms))) end
state:close()

-- --------------------------------------------------------------------------------------------------------------------------------- ingest

local file = assert(io.popen("gzip -dcf '" .. csv .. "'"))
local head = assert(file:read "*l", "cannot read " .. csv)
local currencies, days = {}, {}
for code in head:gmatch "[^,]+" do currencies[#currencies + 1] = code end   -- the first is "Date"
for line in file:lines() do                  -- newest first
  local ms = day_ms(line:match "^[^,]+")
  if ms <= last_ms then break end
  days[#days + 1] = { ms = ms, line = line }
end
file:close()

-- One day is one batch. A batch is appended whole or not at all, so a run that was killed goes on with the right day.
local function records_of(day)
  local records, column, tombstones = {}, 0, 0
  for cell in day.line:gmatch "[^,]+" do
    column = column + 1
    local currency = currencies[column]
    if column > 1 and cell ~= "N/A" then
      records[#records + 1] = { key = currency, value = cell, timestamp = day.ms }
      quoted[currency] = true
    elseif quoted[currency] then             -- it had a rate and has none today: no value, a tombstone
      records[#records + 1] = { key = currency, timestamp = day.ms }
      quoted[currency] = nil
      tombstones = tombstones + 1
    end
  end
  return records, tombstones
end

local began, appended, removed = os.clock(), 0, 0
for i = #days, 1, -1 do
  local records, tombstones = records_of(days[i])
  assert(topic:append_batch(records))
  appended, removed = appended + #records - tombstones, removed + tombstones
  if i % 500 == 1 then progress("%s  %s rates", day_of(days[i].ms), grouped(appended)) end
end
local ingest_seconds = os.clock() - began
if terminal and #days > 0 then print() end
print(("%s new days: %s rates and %d tombstones appended"):format(grouped(#days), grouped(appended), removed))

-- -------------------------------------------------------------------------------------------------------------------------------- compact

-- What is kept: the last record of each currency. Of one that ended it is the tombstone, which stays for delete.retention.ms (a day), so
-- that readers have time to hear of it.
show_segments "segments"
assert(topic:roll())                         -- the active segment is never compacted
local report = assert(topic:compact { force = true })
if report.partitions == 0 then
  print "\nnothing to compact"
else
  show_segments(("compacted: %s records read, %s kept"):format(grouped(report.records_read), grouped(report.records_written)))
end

-- -------------------------------------------------------------------------------------------------------------------------------- rebuild

-- A table has read the whole topic when it is there; rates:update() would bring in what comes later.
began = os.clock()
local rates = assert(store:table "rates")
local rebuild_seconds = os.clock() - began

local names = {}
for currency in rates:pairs() do names[#names + 1] = currency end
table.sort(names)

print(("\none euro, %d currencies"):format(rates:count()))
local COLUMNS = 5
local rows = math.ceil(#names / COLUMNS)
for row = 1, rows do
  local cells = {}
  for i = row, #names, rows do cells[#cells + 1] = ("%s %10s"):format(names[i], rates:get(names[i])) end
  print("  " .. table.concat(cells, "    "))
end

print(("\ntime: ingest %.2f s, compaction %.2f s, rebuild %.4f s"):format(ingest_seconds, report.seconds, rebuild_seconds))
assert(store:close())

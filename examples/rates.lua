-- A changelog and the state that it stands for: 27 years of euro exchange rates in a compacted topic, a record for each currency and day.
--     lua examples/rates.lua [store folder] [csv file]
--     lua examples/rates.lua --store kafka://host:port [csv file]
-- The first run replays the history. A later one finds the store, appends the days that the file has and the topic has not.
-- Source of the data: European Central Bank (data/README.md).
local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path
local sediment = require "sediment"
local ecb = require "ecb"

if arg[1] == "--store" then table.remove(arg, 1) end
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

local last_ms = -1                           -- the last day in the topic: compaction leaves the end of the log alone
if topic:latest() > topic:earliest() then
  for _, _, _, timestamp in topic:records { from = topic:latest() - 1 } do last_ms = timestamp end
end

local quoted = {}                            -- currencies that have a rate, as of that day
local state = assert(store:table "rates")
for currency in state:pairs() do quoted[currency] = true end

if last_ms < 0 then print("new store: " .. folder)
else print(("found store: %s: %d currencies up to %s"):format(folder, state:count(), ecb.day_of(last_ms))) end
state:close()

-- --------------------------------------------------------------------------------------------------------------------------------- ingest

-- One day is one batch. A batch is appended whole or not at all, so a run that was killed goes on with the right day. On a cluster that is
-- not so: there the last day is appended again, which changes no state.
local brokers_compact = select(3, topic:segments()) == "unsupported"
local days, currencies = ecb.days(csv, brokers_compact and last_ms >= 0 and last_ms - 1 or last_ms)

local function records_of(day)
  local records, tombstones = {}, 0
  for _, currency in ipairs(currencies) do
    local rate = day.rates[currency]
    if rate then
      records[#records + 1] = { key = currency, value = rate, timestamp = day.ms }
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
for i, day in ipairs(days) do
  local records, tombstones = records_of(day)
  assert(topic:append_batch(records))
  appended, removed = appended + #records - tombstones, removed + tombstones
  if i % 500 == 0 then progress("%s  %s rates", ecb.day_of(day.ms), grouped(appended)) end
end
local ingest_seconds = os.clock() - began
if terminal and #days > 0 then print() end
print(("%s new days: %s rates and %d tombstones appended"):format(grouped(#days), grouped(appended), removed))

-- -------------------------------------------------------------------------------------------------------------------------------- compact

-- What is kept: the last record of each currency. Of one that ended it is the tombstone, which stays for delete.retention.ms (a day), so
-- that readers have time to hear of it.
local function compact()
  show_segments "segments"
  assert(topic:roll())                       -- the active segment is never compacted
  local report = assert(topic:compact { force = true })
  if report.partitions == 0 then
    print "\nnothing to compact"
  else
    show_segments(("compacted: %s records read, %s kept"):format(grouped(report.records_read), grouped(report.records_written)))
  end
  return report.seconds
end

local compact_seconds = 0
if brokers_compact then print "\ncompaction is the brokers' affair" else compact_seconds = compact() end

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

print(("\ntime: ingest %.2f s, compaction %.2f s, rebuild %.4f s"):format(ingest_seconds, compact_seconds, rebuild_seconds))
assert(store:close())

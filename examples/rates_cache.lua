-- A cache that outlives its program: the latest rate of each currency from a snapshot, the rate of any day from a second topic that keeps
-- ten years, and a consumer that was away for so long that it has missed deletions.
--     lua examples/rates_cache.lua [store folder] [csv file] [DATE CURRENCY]
-- Run it again: the table then comes from its snapshot. Source of the data: European Central Bank (data/README.md).
local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path
local sediment = require "sediment"
local ecb = require "ecb"

local folder = arg[1] or here .. "data/rates-cache-store"
local csv = arg[2] or here .. "data/eurofxref-hist.csv.gz"
local wanted_day, wanted = arg[3] or "2022-02-24", arg[4] or "RUB"

local store = assert(sediment.open(folder))
local LONG = "36500d"                        -- the records' times are those of the rates, decades from the clock's
local latest = assert(store:topic("latest", {
  cleanup_policy = "compact", segment_bytes = "1MiB", segment_ms = LONG, message_timestamp_after_max_ms = LONG,
  delete_retention_ms = 0,                   -- a day, usually; here a tombstone may go with the next compaction
}))
local history = assert(store:topic("history", {
  retention_ms = "3653d", segment_bytes = "256KiB", segment_ms = LONG, message_timestamp_after_max_ms = LONG,
}))

-- ------------------------------------------------------------------------------------------------------------------------------ the cache

local cache = assert(store:table("latest", { snapshot = true, schema = "rate as text" }))
print(("cache: %d currencies, from the %s"):format(cache:count(), cache:stats().origin))

local last_ms = -1
for _, topic in ipairs { latest, history } do
  for _, segment in ipairs(assert(topic:segments())) do last_ms = math.max(last_ms, segment.max_timestamp) end
end

-- A day is a batch in each topic; a currency that has no rate any more gets a tombstone in the first.
local days, currencies = ecb.days(csv, last_ms)

local function append_day(day)
  local now, all = {}, {}
  for _, currency in ipairs(currencies) do
    local rate = day.rates[currency]
    if rate then all[#all + 1] = { key = currency, value = rate, timestamp = day.ms } end
    if cache:get(currency) ~= rate then now[#now + 1] = { key = currency, value = rate, timestamp = day.ms } end
  end
  if #now > 0 then assert(latest:append_batch(now)) end
  assert(history:append_batch(all))
  assert(cache:update())
end

local at = 1
local function append_up_to(text)
  local stop, from = ecb.day_ms(text), at
  while days[at] and days[at].ms <= stop do
    append_day(days[at])
    at = at + 1
  end
  return at - from
end

-- --------------------------------------------------------------------------------------------------------------- a consumer, and its own
-- copy

-- Reads what there is, and commits it. Tells how many times it had to begin anew.
local function visit(copy)
  local consumer, resyncs = assert(store:consumer { group = "mirror", topics = { "latest" } }), 0
  while true do
    local records, message, code = consumer:poll { max = 5000 }
    if code == "resync" then
      resyncs = resyncs + 1
      for currency in pairs(copy) do copy[currency] = nil end
      assert(consumer:seek("latest", 0, "earliest"))
    elseif not records then error(message)
    elseif #records == 0 then break
    else
      for _, record in ipairs(records) do copy[record.key] = record.value end
      assert(consumer:commit())
    end
  end
  assert(consumer:close())
  return resyncs
end

local function compact()
  assert(latest:roll())
  return assert(latest:compact { force = true })
end

if #days > 0 and last_ms < 0 then
  local copy = {}
  print(("%d days up to 2008"):format(append_up_to "2008-12-31"))
  visit(copy)
  print(("mirror: read them; SKK is %s"):format(tostring(copy.SKK)))
  print(("%d days more, while mirror is away"):format(append_up_to "9999-12-31"))
  compact()                                  -- the old rates go, and tombstones begin to wait
  latest:append("EUR", "1")
  print(("%d tombstones compacted away"):format(compact().tombstones_removed))
  latest:append "EUR"
  local resyncs = visit(copy)
  print(("mirror: is back, began anew %d time; SKK is %s"):format(resyncs, tostring(copy.SKK)))
  assert(cache:update())
  for currency, rate in cache:pairs() do assert(copy[currency] == rate) end
else
  print(("%d new days"):format(append_up_to "9999-12-31"))
end

-- ------------------------------------------------------------------------------------------------------------------------- a rate of a day

-- The last rate of a currency up to that day: there is none on weekends.
local function rate_on(text, currency)
  local day = ecb.day_ms(text)
  for back = 0, 6 do
    local ms = day - back * 86400000
    local offset = history:offset_for_time(ms)
    if offset then
      for _, key, rate, timestamp in history:records { from = offset } do
        if timestamp > ms then break end
        if key == currency then return rate, ecb.day_of(ms) end
      end
    end
  end
end

local newest = 0
for _, segment in ipairs(assert(history:segments())) do newest = math.max(newest, segment.max_timestamp) end
local gone = assert(history:retain { now = newest })
local _, _, _, first_ms = history:records()()
print(("history: %d segments deleted, now from %s to %s"):format(gone.segments, ecb.day_of(first_ms), ecb.day_of(newest)))
local rate, day = rate_on(wanted_day, wanted)
print(("%s on %s: %s"):format(wanted, wanted_day, rate and rate .. (day ~= wanted_day and " (of " .. day .. ")" or "") or "no rate"))
print(("cache: %d currencies, USD %s"):format(cache:count(), cache:get "USD"))
assert(cache:close())
assert(store:close())

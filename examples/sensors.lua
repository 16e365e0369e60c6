-- Three topics, three policies, and a consumer loop.
--     lua examples/sensors.lua [store folder]
--   readings    everything the sensors say; kept for a day                        cleanup_policy = "delete"
--   latest      the last reading of each sensor; a tombstone when one is removed   cleanup_policy = "compact"
--   positions   how far each consumer has read; so a second run goes on there      cleanup_policy = "compact"
local sediment = require "sediment"

local folder = arg[1] or (arg[0]:match "^(.*/)" or "./") .. "data/sensors-store"
local MINUTE, DAY = 60000, 86400000

-- background = false: retention and compaction happen when the script says so. A service leaves it out, and a thread does them.
local store = assert(sediment.open(folder, { background = false }))
local readings = assert(store:topic("readings", { retention_ms = "1d", segment_ms = "1h" }))
local latest = assert(store:topic("latest", { cleanup_policy = "compact", delete_retention_ms = "1h" }))
local positions = assert(store:topic("positions", { cleanup_policy = "compact" }))

-- Hands each record that `name` has not seen to `handle`, then notes how far it came. What a crash interrupts is handled again.
local function consume(name, topic, handle)
  local noted = assert(store:table "positions")
  local from = tonumber(noted:get(name)) or 0
  noted:close()
  from = math.max(from, topic:earliest())             -- retention may have overtaken a consumer that was away
  print(("%s: from offset %.0f"):format(name, from))
  for offset, key, value, timestamp in topic:records { from = from } do
    handle(key, value, timestamp)
    from = offset + 1
  end
  assert(positions:append(name, ("%.0f"):format(from)))
end

-- Four hours of readings, one a minute and sensor, up to now.
local now = os.time() * 1000
for minute = 239, 0, -1 do
  for i, sensor in ipairs { "attic", "boiler", "cellar" } do
    local celsius = 15 * i + 10 * math.sin(minute / 40)
    assert(readings:append(sensor, ("%.1f"):format(celsius), { timestamp = now - minute * MINUTE }))
  end
end
print(("readings: offsets %.0f to %.0f in %d segments"):format(readings:earliest(), readings:latest(), #readings:segments()))

-- One consumer keeps `latest` current, another counts alarms.
consume("follower", readings, function(sensor, celsius, timestamp)
  assert(latest:append(sensor, celsius, { timestamp = timestamp }))
end)
local alarms = 0
consume("alarm", readings, function(_, celsius)
  if tonumber(celsius) > 54 then alarms = alarms + 1 end
end)
print(("alarm: %d readings above 54 degrees"):format(alarms))

-- The state. A sensor that is taken down gets a record without a value: a tombstone.
local state = assert(store:table("latest", {
  on_change = function(sensor, new, old) print(("latest: %s %s"):format(sensor, new or "removed, was " .. old)) end,
}))
assert(latest:append("attic", nil))
assert(state:update())

-- Compaction leaves the last record of each sensor, and the tombstone until delete.retention.ms is over.
assert(latest:roll())
local report = assert(latest:compact { force = true })
print(("latest: %d records read, %d kept"):format(report.records_read, report.records_written))

-- Anything that goes by time can be told what time it is: two days on, the readings and the tombstone are gone.
report = assert(store:maintain { now = now + 2 * DAY })
print(("two days later: %d segments of readings deleted, %d tombstone removed"):format(report.segments, report.tombstones_removed))
print(("readings: offsets %.0f to %.0f"):format(readings:earliest(), readings:latest()))
assert(store:close())

-- Of each currency the highest and the lowest rate of 27 years: a script for the command sediment (docs/scripts.md).
--     sediment apply examples/extremes.lua --store extremes-store
--     sediment run examples/extremes.lua [csv file] --store extremes-store
-- Each run appends to the topic `history` the days that the file has and the topic has not. What it finds in them is kept in the topic
-- `extremes`, and a later run goes on from there.
-- Source of the data: European Central Bank (data/README.md).
local csv = ... or (arg[0]:match "^(.*/)" or "./") .. "data/eurofxref-hist.csv.gz"

local function noon_ms(day)
  local y, m, d = day:match "^(%d+)-(%d+)-(%d+)$"
  return os.time { year = y, month = m, day = d, hour = 12 } * 1000
end

local function records_of(line, currencies)
  local day, records, column = line:match "^[^,]+", {}, 0
  for cell in line:gmatch "[^,]+" do
    column = column + 1
    if column > 1 and cell ~= "N/A" then
      records[#records + 1] = { key = currencies[column], value = cell, timestamp = noon_ms(day) }
    end
  end
  return records
end

-- One day is one batch, there whole or not at all; the file has the newest first.
local function fill(history)
  local last_ms = -1
  for _, segment in ipairs(assert(history:segments())) do last_ms = math.max(last_ms, segment.max_timestamp) end
  local file = assert(io.popen("gzip -dcf '" .. csv .. "'"))
  local head, lines, currencies = assert(file:read "*l", "cannot read " .. csv), {}, {}
  for code in head:gmatch "[^,]+" do currencies[#currencies + 1] = code end
  for line in file:lines() do
    if noon_ms(line:match "^[^,]+") <= last_ms then break end
    lines[#lines + 1] = line
  end
  file:close()
  for i = #lines, 1, -1 do assert(history:append_batch(records_of(lines[i], currencies))) end
end

local FORMAT = "%s  high %s on %s  low %s on %s"

return {
  topics = {
    history = { retention_ms = -1, segment_ms = "36500d", message_timestamp_after_max_ms = "36500d" },
    extremes = { cleanup_policy = "compact" },
  },
  from = { "history" },
  commit_every = false,                      -- what a run finds is in `extremes` once it is through, and no earlier

  init = function(state, store)
    fill(store:topic "history")
    for currency, text in store:table "extremes":pairs() do
      local high, high_day, low, low_day = text:match "^(%S+) (%S+) (%S+) (%S+)$"
      state[currency] = { high = high, high_day = high_day, low = low, low_day = low_day }
    end
  end,

  on_record = function(record, state)
    local day, rate = os.date("%Y-%m-%d", math.floor(record.timestamp / 1000)), record.value
    local e = state[record.key] or { high = rate, high_day = day, low = rate, low_day = day }
    if tonumber(rate) > tonumber(e.high) then e.high, e.high_day = rate, day end
    if tonumber(rate) < tonumber(e.low) then e.low, e.low_day = rate, day end
    state[record.key] = e
  end,

  on_done = function(state, store)
    local extremes, names = store:topic "extremes", {}
    for currency, e in pairs(state) do
      assert(extremes:append(currency, table.concat({ e.high, e.high_day, e.low, e.low_day }, " ")))
      names[#names + 1] = currency
    end
    table.sort(names)
    for _, name in ipairs(names) do
      local e = state[name]
      print(FORMAT:format(name, e.high, e.high_day, e.low, e.low_day))
    end
  end,
}

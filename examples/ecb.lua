-- The European Central Bank's reference rates as the examples read them: one CSV line a day, newest first, a column a currency.
local ecb = {}

--- Midnight UTC of "YYYY-MM-DD" in milliseconds since the epoch; os.time would go by the local time zone.
function ecb.day_ms(text)
  local y, m, d = text:match "^(%d+)-(%d+)-(%d+)$"
  y, m, d = tonumber(y), tonumber(m), tonumber(d)
  if m < 3 then y, m = y - 1, m + 12 end
  local leap_days = math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400)
  return (365 * y + leap_days + math.floor((153 * m - 457) / 5) + d - 719469) * 86400000
end

function ecb.day_of(ms) return os.date("!%Y-%m-%d", math.floor(ms / 1000)) end

--- The days after `last_ms`, oldest first: { ms = midnight, rates = { currency = text } }; and the currencies, in the file's order.
function ecb.days(csv, last_ms)
  local file = assert(io.popen("gzip -dcf '" .. csv .. "'"))
  local head = assert(file:read "*l", "cannot read " .. csv)
  local currencies, days = {}, {}
  for code in head:gmatch(",([^,]+)") do currencies[#currencies + 1] = code end   -- behind "Date"
  for line in file:lines() do
    local ms = ecb.day_ms(line:match "^[^,]+")
    if ms <= last_ms then break end
    local rates, column = {}, 0
    for cell in line:gmatch "[^,]+" do
      column = column + 1
      if column > 1 and cell ~= "N/A" then rates[currencies[column - 1]] = cell end
    end
    days[#days + 1] = { ms = ms, rates = rates }
  end
  file:close()
  for i = 1, math.floor(#days / 2) do days[i], days[#days + 1 - i] = days[#days + 1 - i], days[i] end
  return days, currencies
end

return ecb

-- How the command writes numbers, times, bytes and tables, and reads times.
local text = {}

--- Sees to it that what was written is out of this process: nil, message, code when it cannot be.
function text.flush()
  local done, why = io.stdout:flush()
  if done then return true end
  return nil, "cannot write to stdout: " .. tostring(why), "io"
end

--- 221702 -> "221,702"
function text.grouped(n)
  local digits = ("%.0f"):format(n):reverse():gsub("%d%d%d", "%0,"):reverse()
  return (digits:gsub("^(%-?),", "%1"))
end

--- "1 topic", "2 topics"
function text.count(n, noun) return text.grouped(n) .. " " .. noun .. (n == 1 and "" or "s") end

--- A config's value: whole numbers without an exponent, and 2^63-1, "for ever", the same on both Luas; anything else as tostring has it.
function text.value(value)
  if type(value) ~= "number" or value % 1 ~= 0 then return tostring(value) end
  return value >= 2 ^ 63 - 1024 and "9223372036854775807" or ("%.0f"):format(value)
end

--- Bytes for people: "1.5 MB".
function text.size(bytes)
  local units, i = { "B", "kB", "MB", "GB", "TB" }, 1
  while bytes >= 1000 and i < #units do bytes, i = bytes / 1000, i + 1 end
  return (i == 1 and "%.0f %s" or "%.1f %s"):format(bytes, units[i])
end

--- Seconds for people: "8 s", "2 min 5 s", "3 h 20 min".
function text.duration(seconds)
  local s = math.ceil(seconds)
  if s < 60 then return ("%d s"):format(s) end
  if s < 3600 then return ("%d min %d s"):format(math.floor(s / 60), s % 60) end
  return ("%.0f h %d min"):format(math.floor(s / 3600), math.floor(s % 3600 / 60))
end

local last_second, last_date              -- many records have the second of the one before

--- Milliseconds since 1970 as UTC; "-" for a record without time.
function text.time(ms)
  if ms < 0 then return "-" end
  local second = math.floor(ms / 1000)
  if second ~= last_second then last_second, last_date = second, os.date("!%Y-%m-%dT%H:%M:%S", second) end
  return last_date .. (".%03dZ"):format(ms % 1000)
end

-- ------------------------------------------------------------------------------------------------------------------------------- times

-- Days from 1970-01-01 to a date of the Gregorian calendar.
local function days(y, m, d)
  if m < 3 then y, m = y - 1, m + 12 end
  return 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * m - 457) / 5) + d - 719469
end

local MINUTE = 60 * 1000

-- How far a zone is ahead of UTC, in milliseconds; nil: it is none.
local function zone_ms(zone)
  if zone == "" or zone == "Z" then return 0 end
  local sign, h, m = zone:match "^([+-])(%d%d):?(%d%d)$"
  return sign and (sign == "-" and -1 or 1) * (tonumber(h) * 60 + tonumber(m)) * MINUTE
end

--- Milliseconds since 1970 of "2026-10-30", "2026-10-30T12:00", "2026-10-30T12:00:00.5+02:00": UTC where no zone is given. nil: it is none.
function text.parse_time(s)
  local y, m, d, rest = s:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)(.*)$"
  if not y then return nil end
  local hour, minute, zone = rest:match "^[T ](%d%d):(%d%d)(.*)$"
  local second = zone and zone:match "^:(%d%d%.?%d*)"
  if second then zone = zone:sub(#second + 2) end
  local ahead = zone_ms(zone or rest)
  m, d, hour, minute, second = tonumber(m), tonumber(d), tonumber(hour or 0), tonumber(minute or 0), tonumber(second or 0)
  if not ahead or m < 1 or m > 12 or d < 1 or d > 31 or hour > 24 or minute > 59 or second >= 61 then return nil end
  return math.floor((days(tonumber(y), m, d) * 24 * 60 + hour * 60 + minute) * MINUTE + second * 1000 - ahead + 0.5)
end

-- ------------------------------------------------------------------------------------------------------------------------------- bytes

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ["\\"] = "\\\\" }

--- Bytes on a line of their own: control characters, which a terminal would obey, as escapes.
function text.escaped(s)
  if not s:find "[%c\\]" then return s end
  return (s:gsub("[%c\\]", function(c) return ESCAPES[c] or ("\\x%02x"):format(c:byte()) end))
end

-- Whole sequences of more than one byte, as UTF-8 has them.
local SEQUENCES = {
  "[\194-\223][\128-\191]", "\224[\160-\191][\128-\191]", "[\225-\236\238\239][\128-\191][\128-\191]", "\237[\128-\159][\128-\191]",
  "\240[\144-\191][\128-\191][\128-\191]", "[\241-\243][\128-\191][\128-\191][\128-\191]", "\244[\128-\143][\128-\191][\128-\191]",
}

local function is_utf8(s)
  if not s:find "[\128-\255]" then return true end
  for _, sequence in ipairs(SEQUENCES) do s = s:gsub(sequence, ".") end
  return not s:find "[\128-\255]"
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(s)
  local out = {}
  for i = 1, #s, 3 do
    local a, b, c = s:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 3, 0, -1 do
      local digit = math.floor(n / 64 ^ k) % 64
      out[#out + 1] = DIGITS:sub(digit + 1, digit + 1)
    end
    if not b then out[#out - 1] = "=" end
    if not c then out[#out] = "=" end
  end
  return table.concat(out)
end

local function quoted(s)
  if not s:find '[%c"\\]' then return '"' .. s .. '"' end
  return '"' .. s:gsub('[%c"\\]', function(c) return c == '"' and '\\"' or c == "\\" and "\\\\" or ("\\u%04x"):format(c:byte()) end) .. '"'
end

--- Members of a JSON object for some bytes: `"name":"..."`, or `"name_base64":"..."` of those that are no UTF-8.
function text.json_member(name, bytes)
  if bytes == nil then return ('"%s":null'):format(name) end
  if is_utf8(bytes) then return ('"%s":%s'):format(name, quoted(bytes)) end
  return ('"%s_base64":"%s"'):format(name, base64(bytes))
end

-- ------------------------------------------------------------------------------------------------------------------------------- tables

--- Prints rows of texts in columns; those of the columns in `right` begin with blanks.
function text.print_rows(rows, right)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local pad = (" "):rep(widths[i] - #cell)
      cells[i] = right[i] and pad .. cell or cell .. pad
    end
    print((table.concat(cells, "  "):gsub("%s+$", "")))
  end
end

return text

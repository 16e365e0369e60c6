-- How the command writes numbers, times, bytes and tables, and reads times.
local text = {}

--- Sees to it that what was written is out of this process: nil, message, code when it cannot be.
function text.flush()
  local done, why = io.stdout:flush()
  if done then return true end
  return nil, "cannot write to stdout: " .. tostring(why), "io"
end

--- Writes a message to stderr; `who` says it.
function text.complain(who, message) io.stderr:write(who, ": ", text.printable(message), "\n") end

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

-- How far a zone is ahead of UTC, in milliseconds; nil: it is none; false: there is none like it.
local function zone_ms(zone)
  if zone == "" or zone == "Z" then return 0 end
  local sign, h, m = zone:match "^([+-])(%d%d):?(%d%d)$"
  if not sign then return nil end
  h, m = tonumber(h), tonumber(m)
  return h < 24 and m < 60 and (sign == "-" and -1 or 1) * (h * 60 + m) * MINUTE
end

-- A time of day and what is behind it: its text, milliseconds since midnight (nil: there is none like it), the zone. No text: it is none.
local function time_of_day(rest)
  local clock, zone = rest:match "^[T ](%d%d:%d%d)(.*)$"
  if not clock then return nil, 0, rest end
  local seconds = zone:match "^:%d%d%.?%d*"
  if seconds then clock, zone = clock .. seconds, zone:sub(#seconds + 1) end
  local hour, minute, second = tonumber(clock:sub(1, 2)), tonumber(clock:sub(4, 5)), tonumber(seconds and seconds:sub(2) or 0)
  local ms = (hour * 60 + minute) * MINUTE + second * 1000
  return clock, minute < 60 and second < 60 and ms <= 24 * 60 * MINUTE and ms or nil, zone
end

local function is_day(y, m, d)
  if m < 1 or m > 12 or d < 1 then return false end
  return d <= days(m == 12 and y + 1 or y, m % 12 + 1, 1) - days(y, m, 1)
end

--- Milliseconds since 1970 of "2026-10-30", "2026-10-30T12:00", "2026-10-30T12:00:00.5+02:00": UTC where no zone is given. nil: it is none;
--- nil, message: it would be one if there were such a day, or such a time of day.
function text.parse_time(s)
  local y, m, d, rest = s:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)(.*)$"
  if not y then return nil end
  local clock, ms, zone = time_of_day(rest)
  local ahead = zone_ms(zone)
  if ahead == nil then return nil end
  y, m, d = tonumber(y), tonumber(m), tonumber(d)
  local missing = not is_day(y, m, d) and "day " .. s:sub(1, 10) or not ms and "time of day " .. clock or not ahead and "zone " .. zone
  if missing then return nil, ("'%s' is no time: there is no %s"):format(s, missing) end
  return math.floor(days(y, m, d) * 24 * 60 * MINUTE + ms - ahead + 0.5)
end

-- ------------------------------------------------------------------------------------------------------------------------------- bytes

-- Whole characters of more than one byte, as UTF-8 has them.
local CHARACTERS = {
  "[\194-\223][\128-\191]", "\224[\160-\191][\128-\191]", "[\225-\236\238\239][\128-\191][\128-\191]", "\237[\128-\159][\128-\191]",
  "\240[\144-\191][\128-\191][\128-\191]", "[\241-\243][\128-\191][\128-\191][\128-\191]", "\244[\128-\143][\128-\191][\128-\191]",
}

local function is_utf8(s)
  if not s:find "[\128-\255]" then return true end
  for _, character in ipairs(CHARACTERS) do s = s:gsub(character, ".") end
  return not s:find "[\128-\255]"
end

local C1 = "\194[\128-\159]"              -- control characters, too

local BEGINS = { "^\194[\160-\191]" }      -- the same that may be printed, at a place
for i, character in ipairs(CHARACTERS) do BEGINS[i + 1] = "^" .. character:gsub("^%[\194", "[\195") end

-- The character of more than one byte at `i` that may be printed; nil: there is none.
local function character_at(s, i)
  for _, begin in ipairs(BEGINS) do
    local found = s:match(begin, i)
    if found then return found end
  end
end

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ["\\"] = "\\\\" }

local function escape(byte) return ESCAPES[byte] or ("\\x%02x"):format(byte:byte()) end

-- Of a run of bytes beyond ASCII, what is no character as escapes.
local function escape_foreign(run)
  local out, i = {}, 1
  while i <= #run do
    local character = character_at(run, i)
    out[#out + 1] = character or escape(run:sub(i, i))
    i = i + (character and #character or 1)
  end
  return table.concat(out)
end

local function escape_all(s, bytes)
  s = s:gsub(bytes, escape)
  if is_utf8(s) and not s:find(C1) then return s end
  return (s:gsub("[\128-\255]+", escape_foreign))
end

--- Bytes on a line of their own: control characters, which a terminal would obey, and what is no UTF-8 as escapes.
function text.escaped(s) return s:find "[%c\\\128-\255]" and escape_all(s, "[%c\\]") or s end

--- The same of a message, which may have lines and has what it is about in it.
function text.printable(s) return escape_all(s, "[^%C\n\t]") end

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

local function json_escape(c) return c == '"' and '\\"' or c == "\\" and "\\\\" or ("\\u%04x"):format(c:byte(-1)) end

local function quoted(s)
  if s:find '[%c"\\]' then s = s:gsub('[%c"\\]', json_escape) end
  if s:find(C1) then s = s:gsub(C1, json_escape) end
  return '"' .. s .. '"'
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
    for i, cell in ipairs(row) do
      row[i] = text.escaped(cell)
      widths[i] = math.max(widths[i] or 0, #row[i])
    end
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

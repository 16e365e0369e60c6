-- Arguments that several commands have, for argparse.
local text = require "sediment.command.text"

local arguments = {}

--- --store DIR
function arguments.store(command)
  command:option("--store", "The store's folder. Default: $SEDIMENT_STORE, else the working directory if it is one."):argname "DIR"
end

--- --partition DIR
function arguments.partition(command, what)
  command:option("--partition", what .. " the folder of one partition, a Kafka broker's or a store's, which is only read."):argname "DIR"
end

local UNITS = { ms = 1, s = 1000, m = 60 * 1000, h = 3600 * 1000, d = 24 * 3600 * 1000 }

-- "2h" is the time two hours ago.
local function ago(word)
  local number, unit = word:match "^(%d+%.?%d*)(%l+)$"
  local ms = number and UNITS[unit] and tonumber(number) * UNITS[unit]
  return ms and ms < 2 ^ 52 and math.floor(os.time() * 1000 - ms) or nil
end

local WORDS = { earliest = "earliest", latest = "latest", committed = "committed" }

-- What consumer:seek takes, or "committed".
local function parse_from(word)
  if WORDS[word] then return word end
  if word:find "^%d+$" and #word <= 15 then return tonumber(word) end
  local ms = word:match "^@(%d+)$" and #word <= 16 and tonumber(word:sub(2)) or ago(word)
  local message
  if not ms then ms, message = text.parse_time(word) end
  if ms then return { time = ms } end
  if message then return nil, message end
  return nil, "'" .. word .. "' is no place to begin: earliest, latest, committed, an offset, a time such as 2026-10-30T12:00 (UTC), " ..
    "@1793361600000 (milliseconds), or 2h (so long ago) expected"
end

--- --from PLACE, and --follow. Where something is committed that is a place, too.
function arguments.reading(command, default)
  local committed = default == "committed" and " committed," or ""
  local description = "Where to begin: earliest, latest," .. committed .. " an offset, a time such as 2026-10-30T12:00 (UTC), " ..
    "@MILLISECONDS, or so long ago: 90s, 15m, 2h, 7d. Default: %s."
  command:option("--from", description:format(default)):argname("PLACE"):convert(parse_from)
  command:flag("-f --follow", "Do not end with the log: wait for what is appended.")
end

--- A text that is not empty, for convert.
function arguments.name(word)
  if word ~= "" then return word end
  return nil, "a name expected, got ''"
end

--- A whole number of 0 or more, for convert.
function arguments.whole(word)
  if word:find "^%d+$" and #word <= 15 then return tonumber(word) end
  return nil, "'" .. word .. "' is not a whole number"
end

return arguments

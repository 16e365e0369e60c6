-- How records and bytes are written in scripts and listings (README.md): "-" is null, "=" and percent-encoded bytes is a value.
local listing = {}

function listing.bytes(word)
  if word == "-" then return nil end
  return (word:sub(2):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

function listing.text(s)
  if s == nil then return "-" end
  return "=" .. (s:gsub("[^%w]", function(c)
    if c <= " " or c > "~" or c == "%" or c == "," or c == ":" then return string.format("%%%02X", c:byte()) end
  end))
end

--- A line for what an iterator gave.
function listing.record(offset, key, value, timestamp, headers)
  local line = { string.format("%d\t%d\tdata\t%s\t%s", offset, timestamp, listing.text(key), listing.text(value)) }
  for _, h in ipairs(headers or {}) do line[#line + 1] = h[1] .. ":" .. listing.text(h[2]) end
  return table.concat(line, "\t")
end

return listing

-- Change data capture: the change events of a database table, as Debezium writes them, become that table again, with an index.
--     lua examples/cdc.lua STORE [EVENTS [LINES]]
--
-- EVENTS is what a connector sends, a line an event: {"key": {...}, "value": {before, after, op, source} or null}; see data/customers.md.
-- Run it again and it goes on: what it has had already is recognised. With LINES it stops after so many, as if it had been killed there.
-- Needs lua-cjson (Debian: lua-cjson; LuaRocks: lua-cjson).
local sediment = require "sediment"
local cjson = require "cjson"

local path = arg[1]
local events = arg[2] or arg[0]:gsub("[^/]*$", "") .. "data/customers.ndjson"
local lines = tonumber(arg[3]) or math.huge
if not path then
  io.stderr:write "usage: lua examples/cdc.lua STORE [EVENTS [LINES]]\n"
  os.exit(2)
end

local store = assert(sediment.open(path))
local topic = assert(store:topic("customers", { cleanup_policy = "compact", delete_retention_ms = "7d" }))

-- The row that an event leaves: none, for an update without one and for a deletion. Columns that a row does not have yet read as nil.
local function row_of(value)
  local row = cjson.decode(value).after
  if row == cjson.null then return nil end
  for column, cell in pairs(row) do
    if cell == cjson.null then row[column] = nil end
  end
  return row
end

local customers = assert(store:table("customers", {
  decode = row_of,
  index = { by_country = function(row) return row.country end },
  snapshot = true, schema = "customers 1",
}))

-- A connector that restarts begins a little before where it was: its events have the source's log sequence number, and come in its order.
-- What is not above the last one that the topic has is there already. The topic's last record is never compacted away, so it knows.
local function last_lsn()
  local last = 0
  for _, _, _, _, headers in topic:records { from = math.max(topic:earliest(), topic:latest() - 1) } do last = tonumber(headers[1][2]) end
  return last
end

local applied, known, last = 0, 0, last_lsn()
local lsn = 0                             -- of a tombstone: that of the deletion before it, plus one
local read = 0
for line in io.lines(events) do
  read = read + 1
  if read > lines then break end
  local event = cjson.decode(line)
  local is_tombstone = event.value == cjson.null
  lsn = is_tombstone and lsn + 1 or event.value.source.lsn
  if lsn <= last then known = known + 1
  else
    -- Number and text of the key come from the source's primary key.
    local headers = { { "lsn", ("%.0f"):format(lsn) } }
    local key, value = ("%.0f"):format(event.key.id), not is_tombstone and cjson.encode(event.value) or nil
    if value then assert(customers:put(key, value, { headers = headers })) else assert(customers:delete(key, { headers = headers })) end
    applied, last = applied + 1, lsn
  end
end

print(("%d events: %d applied, %d known already"):format(applied + known, applied, known))
print(("%d customers, %d of them in Portugal:"):format(customers:count(), customers:count("by_country", "PT")))
local found = {}
for id, row in customers:lookup("by_country", "PT") do found[#found + 1] = id .. "  " .. row.name .. "  " .. row.email end
table.sort(found)
for _, text in ipairs(found) do print("  " .. text) end
local stats = customers:stats()
print("table from the " .. stats.origin .. (stats.note and " (" .. stats.note .. ")" or ""))
assert(customers:close())
assert(store:close())

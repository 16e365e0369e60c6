-- sediment cat: prints records, one a line.
local core = require "sediment.core"
local arguments = require "sediment.command.arguments"
local source = require "sediment.command.source"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local cat = { summary = "Print records." }

cat.description = [[
Prints the records of a topic, each on a line: partition, offset, time, key and value, with tabs between. Control characters and bytes that
are no UTF-8 are escaped (\n, \x1b); null for no key, and for the value of a tombstone. Records of several partitions come in turns.
Nothing is committed.]]

local MOST, SLICE_MS = 500, 200

function cat.define(command)
  command:argument("topic", "The topic."):argname("TOPIC"):args "?"
  arguments.store(command)
  arguments.partition(command, "Instead of a topic:")
  arguments.reading(command, "earliest")
  command:option("--max", "End after so many records."):argname("N"):convert(arguments.whole)
  command:flag("--json", "A JSON object a line. Keys and values that are no UTF-8 are key_base64 and value_base64.")
  command:flag("--uncommitted", "Records of aborted and open transactions as well.")
  command:flag("--skip-corrupt", "Go on behind damage, and tell of it on stderr.")
end

local function plain(r)
  local function shown(bytes) return bytes == nil and "null" or text.escaped(bytes) end
  return ("%d\t%.0f\t%s\t%s\t%s"):format(r.partition, r.offset, text.time(r.timestamp), shown(r.key), shown(r.value))
end

local function headers_json(headers)
  local list = {}
  for i, header in ipairs(headers) do
    list[i] = "{" .. text.json_member("name", header[1]) .. "," .. text.json_member("value", header[2]) .. "}"
  end
  return "[" .. table.concat(list, ",") .. "]"
end

local function json(r)
  local members = {
    text.json_member("topic", r.topic), ('"partition":%d,"offset":%.0f,"timestamp":%.0f'):format(r.partition, r.offset, r.timestamp),
    text.json_member("key", r.key), text.json_member("value", r.value),
  }
  if r.headers then members[#members + 1] = '"headers":' .. headers_json(r.headers) end
  return "{" .. table.concat(members, ",") .. "}"
end

local function print_all(from, given)
  local show, left = given.json and json or plain, given.max or math.huge
  while left > 0 do
    local list, message, code = from:read(math.min(MOST, left), given.follow and SLICE_MS or 0)
    if not list then return nil, message, code end
    local lines = {}
    for i, record in ipairs(list) do lines[i] = show(record) .. "\n" end
    io.write(table.concat(lines))
    left = left - #list
    local done
    done, message, code = text.flush()
    if not done then return nil, message, code end
    if given.follow then
      if core.caught_signal() then return 128 + core.caught_signal() end
    elseif #list == 0 or from:is_done() then break end
  end
  return 0
end

local function perform(from, given)
  if given.from then
    local done, message, code = from:seek(given.from)
    if not done then return nil, message, code end
  end
  if given.follow then core.catch_signals() end
  local done, message, code = from:note_end()
  if not done then return nil, message, code end
  return print_all(from, given)
end

local function tell(topic, p, from, to, message)
  text.complain("sediment cat", ("%s-%d: offsets %.0f to %.0f are left out: %s"):format(topic, p, from, to - 1, message))
end

local function options_of(given)
  return { on_corrupt = given.skip_corrupt and tell or nil, isolation = given.uncommitted and "uncommitted" or nil }
end

local function over(from, message, code, given)
  if not from then return nil, message, code end
  local ok, status, why, what = pcall(perform, from, given)
  from:close()
  if not ok then error(status, 0) end
  return status, why, what
end

function cat.execute(given)
  if (given.topic == nil) == (given.partition == nil) then return nil, "a topic, or --partition DIR, expected", "usage" end
  if given.from == "committed" then return nil, "--from committed: nothing is committed here", "usage" end
  local options = options_of(given)
  if given.partition then
    local from, message, code = source.of_partition(given.partition, options)
    return over(from, message, code, given)
  end
  return stores.with(given, { readonly = true }, function(store)
    options.topics = { given.topic }
    local from, message, code = source.of_store(store, options)
    return over(from, message, code, given)
  end)
end

return cat

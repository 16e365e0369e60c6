-- Where the consumer groups of a Kafka broker stand, from its log directory: `__consumer_offsets` rebuilt into a table. Nothing is written.
--     lua examples/consumer_offsets.lua DIRECTORY
--
-- DIRECTORY is the broker's log.dirs, or a copy, with folders such as __consumer_offsets-17 and orders-0. Of topics whose partitions are
-- there, the lag is told, too. A store's own folder does as well.
local sediment = require "sediment"
local offsets = require "sediment.offsets"

local directory = arg[1]
if not directory then
  io.stderr:write "usage: lua examples/consumer_offsets.lua DIRECTORY\n"
  os.exit(2)
end

local function folders(prefix)
  local list = {}
  local ls = assert(io.popen("ls '" .. directory:gsub("'", "'\\''") .. "'"))
  for name in ls:lines() do
    if name:sub(1, #prefix) == prefix and name:find "%-%d+$" then list[#list + 1] = name end
  end
  ls:close()
  return list
end

-- The last record of each key is the state; a tombstone takes the key out.
local function rebuild(folder, commits, groups)
  local partition = assert(sediment.open_partition(directory .. "/" .. folder))
  for _, key, value in partition:records() do
    local said = key and offsets.decode_key(key)
    if said and said.topic then commits[key] = value and { said = said, value = value }
    elseif said then groups[said.group] = value end
  end
  partition:close()
end

local function log_end(topic, p)
  local partition = sediment.open_partition(("%s/%s-%d"):format(directory, topic, p))
  local offset = partition and partition:latest()
  if partition then partition:close() end
  return offset
end

-- Who has the partition by the group's own record.
local function owner(groups, said)
  local group = groups[said.group] and offsets.decode_group(groups[said.group])
  for _, member in ipairs(group and group.members or {}) do
    for _, p in ipairs(member.assignment[said.topic] or {}) do
      if p == said.partition then return member end
    end
  end
end

local commits, groups, rows = {}, {}, {}
for _, folder in ipairs(folders(offsets.TOPIC .. "-")) do rebuild(folder, commits, groups) end
for _, c in pairs(commits) do
  local said, commit = c.said, offsets.decode_value(c.value)
  local last, member = log_end(said.topic, said.partition), owner(groups, said)
  rows[#rows + 1] = {
    said.group, said.topic, tostring(said.partition), ("%.0f"):format(commit.offset), last and ("%.0f"):format(last) or "-",
    last and ("%.0f"):format(last - commit.offset) or "-", member and member.client_id or "-", member and member.host or "-",
  }
end

table.sort(rows, function(a, b)
  for i = 1, 2 do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return tonumber(a[3]) < tonumber(b[3])
end)
table.insert(rows, 1, { "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CLIENT-ID", "HOST" })
for _, row in ipairs(rows) do print(table.concat(row, "\t")) end
if #rows == 1 then io.stderr:write("no group has committed anything in " .. directory .. "\n") end

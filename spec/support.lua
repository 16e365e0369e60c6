-- What specs share: fresh directories that go away afterwards, stores on a clock that the spec sets, errors as values.
local sediment = require "sediment"
local disk = require "disk"

local support = { now = 1700000000000 }

local directories, stores, foreign, processes = {}, {}, {}, {}

--- A path that does not exist yet, below a fresh directory.
function support.path()
  local name, folder = os.tmpname(), os.getenv "TMPDIR"
  os.remove(name)
  if folder then name = folder .. "/" .. name:match "[^/]*$" end        -- which os.tmpname does not look at
  assert(os.execute("mkdir '" .. name .. "'"))
  directories[#directories + 1] = name
  return name .. "/store"
end

--- Opens a store without background work whose clock is support.now; options are added. Closed by cleanup.
function support.open(path, options)
  local given = { background = false, clock = function() return support.now end }
  for name, value in pairs(options or {}) do given[name] = value end
  local store = assert(sediment.open(path or support.path(), given))
  stores[#stores + 1] = store
  return store
end

--- A topic in a store of its own; also returns the store.
function support.topic(config, options)
  local store = support.open(nil, options)
  return assert(store:topic("t", config or {})), store
end

-- SEDIMENT_KEEP names a folder that is given the directories instead: spec/kafka/leftovers shows them to Kafka.
local KEEP = os.getenv "SEDIMENT_KEEP"
local keep = KEEP

--- A closed store with a topic t whose one partition, and whose root, have every kind of file.
function support.every_kind_of_file(path)
  local store = support.open(path)
  local config = { cleanup_policy = "compact,delete", segment_bytes = 300, index_interval_bytes = 10, file_delete_delay_ms = 0 }
  local topic = store:topic("t", config)
  for i = 1, 20 do topic:append("k" .. i, "v" .. i) end
  topic:delete_records(1)
  topic:compact { force = true }
  store:close()
end

--- The directories of this test are not kept: it has changed bytes of a log on purpose.
function support.damaged() keep = nil end

--- A fresh folder for what is not ours, such as a directory to import; never kept.
function support.foreign()
  local folder = support.path():gsub("store$", "")
  foreign[folder:gsub("/$", "")] = true
  return folder
end

--- Unpacks one of the directories in spec/data/kafka into a fresh folder; returns it, and the folder with the checkpoints.
function support.kafka_directory(name)
  local folder = support.foreign()
  local data = debug.getinfo(1, "S").source:gsub("^@", ""):gsub("[^/]*$", "") .. "data/kafka/"
  assert(disk.run("tar -xzSf '" .. data .. name .. ".tar.gz' -C '" .. folder .. "'") == 0)
  return folder .. disk.list(folder, "-0")[1], folder
end

--- Starts a Lua program with the path of a store, as support.path gives it, in arg[1]: a pipe with what it says on both streams, and then
--- "status N"; and its process's number. cleanup waits for its end.
function support.start(path, text) return support.launch(path .. "/../other.lua", text, path) end

--- The same with a script at that path, and any arguments.
function support.launch(script, text, ...)
  local command = disk.script(script, text)
  for _, argument in ipairs { ... } do command = command .. " '" .. argument .. "'" end
  local pipe = assert(io.popen(([[exec 2>&1; sh -c 'echo $$; exec "$@"' sh %s; echo "status $?"]]):format(command)))
  processes[#processes + 1] = pipe
  return pipe, assert(tonumber(pipe:read "*l"))
end

--- Closes the stores and removes the directories, after before_removal() if given: for after_each.
function support.cleanup(before_removal)
  for _, pipe in ipairs(processes) do
    if io.type(pipe) == "file" then pipe:close() end
  end
  for _, store in ipairs(stores) do store:close() end
  if before_removal then before_removal() end
  for _, name in ipairs(directories) do
    local to = not foreign[name] and keep
    os.execute((to and "mv '" .. name .. "' '" .. to or "rm -rf '" .. name) .. "'")
  end
  stores, directories, foreign, processes, keep = {}, {}, {}, {}, KEEP
  support.now = 1700000000000
end

--- What f raises; fails when it raises nothing.
function support.raised(f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was raised")
  return err
end

--- What a partition's records say, but for their offsets.
function support.contents(topic, p)
  local list = {}
  for _, key, value, timestamp, headers in topic:records { partition = p } do
    list[#list + 1] = { key = key, value = value, timestamp = timestamp, headers = headers }
  end
  return list
end

--- The records of an iteration: { offset, key, value, timestamp, headers } each.
function support.collect(...)
  local list = {}
  for offset, key, value, timestamp, headers in ... do
    list[#list + 1] = { offset = offset, key = key, value = value, timestamp = timestamp, headers = headers }
  end
  return list
end

--- "key=value" of each record, "key-" for a tombstone, with blanks between.
function support.words(...)
  local list = {}
  for _, key, value in ... do list[#list + 1] = (key or "nil") .. (value and "=" .. value or "-") end
  return table.concat(list, " ")
end

--- Cleans a compacted topic until its tombstones are gone: twice, the second time behind the horizon that the first one gave them.
function support.purge(topic)
  topic:roll()
  assert(topic:compact { force = true })
  support.now = support.now + topic:config()["delete.retention.ms"] + 1
  assert(topic:compact { force = true })
end

--- The base offsets of a topic's segments, as text.
function support.bases(topic)
  local list = {}
  for i, s in ipairs(topic:segments()) do list[i] = s.base_offset end
  return table.concat(list, " ")
end

return support

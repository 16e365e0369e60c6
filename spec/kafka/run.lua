-- Interprets the Kafka referee's script language over the module `sediment` (found through LUA_PATH and LUA_CPATH):
--     lua5.4 run.lua STOREDIR TOPIC < script
-- It prints what the referee prints, so that the two outputs can be compared; README.md lists the commands.
package.path = (arg[0]:match "^.*/" or "./") .. "?.lua;" .. package.path
local sediment = require "sediment"
local listing = require "listing"
local dir, name = arg[1], arg[2]
if not name then io.stderr:write "usage: run.lua STOREDIR TOPIC < script\n" os.exit(2) end

local clock, pending, store, topic = os.time() * 1000, {}, nil, nil
local settings = {}                                         -- given before the topic exists; nil once it does: then the store keeps them
local broker = {}                                           -- the store's options, from the next opening on
local partition, partitions = 0, nil                        -- which one is looked at; how many, if the script says so

local function out(...) io.write(string.format(...), "\n") end

-- Runtime failures come back as nil, message, code; misuse is raised. Both become an "# error" line and the script goes on.
local function check(value, message, code)
  if value == nil and code then error({ code = code, message = message }, 0) end
  return value, message
end

local function open()
  if topic then return topic end
  if not store then
    store = check(sediment.open(dir, { background = false, options = broker, clock = function() return clock end }))
  end
  if settings then settings.partitions = partitions end
  topic = check(store:topic(name, settings))
  settings = nil
  return topic
end

local function options(words)
  local o = {}
  for i = 2, #words do
    local key, value = words[i]:match "^([^=]+)=(.*)$"
    o[key] = tonumber(value) or value
  end
  return o
end

local step = {}

function step.clock(w) clock = tonumber(w[2]) end
function step.advance(w) clock = clock + tonumber(w[2]) end

function step.config(w)
  if topic then check(topic:alter(options(w))) return end
  for key, value in pairs(options(w)) do settings[key] = value end
end

-- The cleaner's own settings go with each opening of the store.
function step.options(w)
  if store then check(store:close()) end
  store, topic = nil, nil
  for key, value in pairs(options(w)) do broker[key] = value end
end

function step.partition(w) partition, partitions = tonumber(w[2]), tonumber(w[3]) end

function step.rec(w)
  local headers
  for i = 5, #w do
    headers = headers or {}
    local key, value = w[i]:match "^([^:]*):(.*)$"
    headers[#headers + 1] = { key, listing.bytes(value) }
  end
  local timestamp = w[2] == "now" and clock or tonumber(w[2])
  pending[#pending + 1] = { timestamp = timestamp, key = listing.bytes(w[3]), value = listing.bytes(w[4]), headers = headers }
end

-- `staged`: record by record, so that they gather in the stage, each in the partition that its key has.
function step.append(w)
  local batch, o = pending, options(w)
  pending = {}
  if #batch == 0 then return end
  if not o.staged then return check(open():append_batch(batch, o.codec and { compression = o.codec } or nil)) end
  for _, r in ipairs(batch) do
    check(open():append(r.key, r.value, { timestamp = r.timestamp, headers = r.headers }))
  end
end

function step.roll() check(open():roll(partition)) end
function step.retain() out("# retain deleted=%d", check(open():retain { now = clock }).segments) end

-- The referee cleans whatever is cleanable, whatever the dirty ratio: that is force. `due=yes` obeys the ratio and the lag.
function step.clean(w)
  local r = check(open():compact { force = not options(w).due, now = clock })
  if r.partitions == 0 then out "# clean nothing"
  else out("# clean read=%d written=%d tombstones_removed=%d", r.records_read, r.records_written, r.tombstones_removed) end
end

function step.tasks() open() check(store:maintain { now = clock }) end

function step.reopen()
  open()
  check(store:close())
  store, topic = nil, nil
  open()
end

-- Nothing is closed, and whoever gave this script to a process goes on with the rest in another: `sh` is a child of this one.
function step.kill()
  open()
  io.stdout:flush()
  os.execute "kill -9 $PPID"
end

function step.delete_records(w) check(open():delete_records(tonumber(w[2]), partition)) end

function step.scan()
  local t = open()
  for offset, key, value, timestamp, headers in t:records { partition = partition } do
    io.write(listing.record(offset, key, value, timestamp, headers), "\n")
  end
  for _, s in ipairs(check(t:segments(partition))) do
    out("# segment base=%d bytes=%d largest_timestamp=%d", s.base_offset, s.size, s.max_timestamp or -1)
  end
  out("# log start=%d end=%d", check(t:earliest(partition)), check(t:latest(partition)))
end

function step.offset_for(w)
  out("# offset_for %s = %s", w[2], tostring(check(open():offset_for_time(tonumber(w[2]), partition)) or "none"))
end

function step.dir() error "dir is the referee's; here one process runs one script" end
function step.errors() end
function step.mtime() end

for line in io.lines() do
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  if words[1] and words[1]:sub(1, 1) ~= "#" then
    local f = step[words[1]]
    if not f then io.stderr:write("unknown command: ", line, "\n") os.exit(2) end
    local ok, err = pcall(f, words)
    if not ok then
      if type(err) == "table" then out("# error %s %s", err.code, err.message) else out("# error raised %s", tostring(err)) end
    end
  end
end
if store then store:close() end

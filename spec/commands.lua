-- What specs of the command share: a directory with a store in it, and in those of `sediment run` a script, s.lua, over the topic t.
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local commands = {}

commands.COUNT = [[
return {
  topics = { "t" },
  init = function(state) state.n = 0 end,
  on_record = function(record, state) state.n = state.n + 1 state.last = record.value end,
  on_done = function(state) print(state.n, state.last) end,
}]]

commands.FOLLOWER = [[
io.stdout:setvbuf "line"
return { topics = { "t" }, init = function() io.write "begun\n" end,
  on_record = function(r) io.write(r.value, "\n") end, on_done = function() print "done" end }]]

local directory, store

--- For before_each: a fresh directory, and the store in it, which is open.
function commands.begin()
  directory = support.foreign():gsub("/$", "")
  store = support.open(directory .. "/store")
  return directory, store
end

function commands.write(text, name) disk.write(directory .. "/" .. (name or "s.lua"), text) end

function commands.run(...) return scripts.sediment(directory, "run", "s.lua", "--store", "store", ...) end

--- The topic, with values 1 to count.
function commands.fill(count, config)
  local topic = store:topic("t", config or {})
  for i = 1, count do topic:append("k" .. i % 3, tostring(i)) end
  return topic
end

--- What a group, the script's own, has committed for a partition.
function commands.committed(group, p)
  local known = store:group(group or "s")
  return known and known.offsets.t and known.offsets.t[p or 0] and known.offsets.t[p or 0].offset
end

--- What comes from a pipe up to that line, or the end, with blanks between.
function commands.lines_until(pipe, last)
  local lines = {}
  for line in pipe:lines() do
    lines[#lines + 1] = line
    if line == last then break end
  end
  return table.concat(lines, " ")
end

return commands

-- sediment copy: a topic's records from one store to another, here or on a cluster.
local core = require "sediment.core"
local arguments = require "sediment.command.arguments"
local compare = require "sediment.command.copy.compare"
local ends = require "sediment.command.copy.ends"
local groups = require "sediment.command.copy.groups"
local Journal = require "sediment.command.copy.journal"
local Partition = require "sediment.command.copy.partition"
local Progress = require "sediment.command.progress"
local text = require "sediment.command.text"

local copy = { summary = "Copy a topic to another store, or to a Kafka cluster and back." }

copy.description = [[
Copies the committed records of a topic, with keys, values, headers and timestamps, each to the partition of the same number. After a run
that was ended in the middle, however, the same command goes on: nothing is left out, nothing is there twice. Then the copy is read once
more and compared with what was read. The target's topic is made when it is missing; it must be empty at first, and nobody else may write
to it.]]

function copy.define(command)
  command:argument("source", "A store's folder, a partition's folder, or a cluster, kafka://HOST:PORT."):argname "SOURCE"
  command:argument("topic", "The topic."):argname("TOPIC"):convert(arguments.name)
  command:argument("target", "A store's folder, which is made when it is missing, or a cluster."):argname "TARGET"
  command:argument("target_topic", "The topic's name there. Default: TOPIC."):argname("TOPIC"):args("?"):convert(arguments.name)
  command:option("--group", "Carry over what this group has committed. May be given more than once."):argname("NAME"):count("*")
    :convert(arguments.name)
  command:flag("--no-verify", "Do not read the copy once more.")
  command:flag("-q --quiet", "No progress, only what is wrong.")
end

local NAME = "sediment copy"

-- ----------------------------------------------------------------------------------------------------------------------------- copying

local function total(self, f)
  local sum = 0
  for _, partition in ipairs(self.partitions) do sum = sum + f(partition) end
  return sum
end

-- True at the partition's end, false when a signal came.
local function copy_partition(self, partition)
  while true do
    local records, message, code = partition:step()
    if not records then return nil, message, code end
    if #records == 0 then return true end
    for _, record in ipairs(records) do self.progress:add(record) end
    if core.caught_signal() then return false end
  end
end

local function copy_all(self)
  self.progress = Progress.new(NAME, function() return total(self, Partition.lag) end, self.quiet)
  for _, partition in ipairs(self.partitions) do
    local done, message, code = copy_partition(self, partition)
    if done == nil then
      self.progress:erase()
      return nil, message .. "\n  what came before is copied; the next run goes on there", code
    end
    if not done then
      self.progress:finish "; the next run goes on there"
      return false
    end
  end
  self.progress:finish(", to " .. self.target.name .. " in " .. self.target.where)
  return true
end

-- --------------------------------------------------------------------------------------------------------------------------- comparing

local ENDED = { message = "a signal", code = "signal" }

-- The progress of reading again.
local function reader_of(self)
  local left = total(self, function(partition) return partition.state.at - partition.state.base end)
  local progress = Progress.new(NAME .. ", reading again", function() return math.max(0, left) end, self.quiet)
  return progress, function(record)
    left = left - 1
    progress:add(record)
    if core.caught_signal() then error(ENDED, 0) end
  end
end

local function compare_all(self)
  local progress, tick = reader_of(self)
  for _, partition in ipairs(self.partitions) do
    local found, message, code = compare.verify(partition, tick)
    if not found then
      progress:erase()
      if code == "signal" then return false end
      return nil, message, code
    end
    partition.verified = found
  end
  progress:erase()
  return true
end

-- ------------------------------------------------------------------------------------------------------------------------------- telling

local function remark(partition)
  local found = partition.verified
  if not found then return "not compared" end
  if found.cleaned == 0 then return "the same" end
  return ("the same; %s cleaned away there"):format(text.count(found.cleaned, "record"))
end

local function span(from, to) return ("%.0f-%.0f"):format(from, to) end

local function print_partitions(self)
  local rows = { { "partition", "records", "source", "target", "digest", "compared" } }
  for _, partition in ipairs(self.partitions) do
    local s = partition.state
    rows[#rows + 1] = { ("%d"):format(partition.p), text.grouped(s.count), span(s.first, s.from), span(s.base, s.at), s.digest,
                        remark(partition) }
  end
  text.print_rows(rows, { true, true, true, true })
end

local function print_groups(names, carried)
  for _, name in ipairs(names) do
    for _, c in ipairs(carried[name]) do print(("group %s: partition %d: %.0f -> %.0f"):format(name, c[1], c[2], c[3])) end
  end
end

-- ---------------------------------------------------------------------------------------------------------------------------- the whole

local function carry_groups(self)
  if #self.groups == 0 then return true end
  local carried, message, code = groups.carry(self.groups, self.source, self.target, self.partitions)
  if not carried then return nil, message, code end
  print_groups(self.groups, carried)
  return true
end

local function work(self, given)
  local done, message, code = copy_all(self)
  if done and not given.no_verify then done, message, code = compare_all(self) end
  if done == nil then return nil, message, code end
  if done then
    print_partitions(self)
    done, message, code = carry_groups(self)
    if not done then return nil, message, code end
  end
  local signal = core.caught_signal()
  return signal and 128 + signal or 0
end

-- Where the target gives the records times of its own, those tell nothing.
local function keeps_times(self)
  local config, message, code = self.target.topic:config()
  if not config then return nil, message, code end
  if config["message.timestamp.type"] ~= "LogAppendTime" then return true end
  io.stderr:write(NAME, ": the target gives the records times of its own (LogAppendTime): times are not compared\n")
  return false
end

-- All that can be refused is, before anything is copied.
local function begin(self)
  local times, message, code = keeps_times(self)
  local numbers
  if times ~= nil then numbers, message, code = self.source:numbers() end
  if not numbers then return nil, message, code end
  for i, p in ipairs(numbers) do
    local partition = Partition.new(self.source, self.target, self.journal, p, times)
    local found, why, what = partition:begin()
    if not found then return nil, why, what end
    self.partitions[i] = partition
  end
  if #self.groups == 0 then return true end
  return groups.look(self.groups, self.source, self.target)
end

local function begin_and_work(self, given)
  local done, message, code = begin(self)
  if not done then return nil, message, code end
  return work(self, given)
end

-- Closes it, whatever body(it) did; a failure of the body is told before one of the closing.
local function using(it, body)
  local ok, status, message, code = pcall(body, it)
  local closed, why, what = it:close()
  if not ok then error(status, 0) end
  if status and not closed then return nil, why, what end
  return status, message, code
end

local function tell_left_out(name, value)
  io.stderr:write(NAME, ": the target cannot have the source's ", name, " ", text.value(value), "; it is left out\n")
end

local function with_target(self, given, target)
  self.target = target
  local journal, message, code = Journal.open(target)
  if not journal then return nil, message, code end
  self.journal = journal
  return using(journal, function() return begin_and_work(self, given) end)
end

function copy.execute(given)
  local self = { partitions = {}, groups = given.group, quiet = given.quiet }
  core.catch_signals()
  local source, message, code = ends.source(given.source, given.topic, #self.groups > 0)
  if not source then return nil, message, code end
  self.source = source
  return using(source, function()
    if #self.groups > 0 and not source.store then return nil, "--group: a partition's folder has no groups", "usage" end
    local target, why, what = ends.target(given.target, given.target_topic or given.topic, source, tell_left_out)
    if not target then return nil, why, what end
    return using(target, function() return with_target(self, given, target) end)
  end)
end

return copy

-- sediment run: a user's script over the records of a store, or of one partition's folder.
--
-- At least once: a commit covers records that on_record has returned from (or that were put aside), never one that it is about to be given;
-- so whatever ends a run, and wherever, the next one goes on with the first that was not handled.
local core = require "sediment.core"
local arguments = require "sediment.command.arguments"
local dead_letters = require "sediment.command.dead_letters"
local plan = require "sediment.command.plan"
local Progress = require "sediment.command.progress"
local script = require "sediment.command.script"
local source = require "sediment.command.source"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local run = { summary = "Run a Lua script over records." }

run.description = [[
Gives each record of the script's topics to its on_record. In a store the script's consumer group commits what was handled, every
commit_every records and at the end, and the next run goes on there: nothing is left out, and of a run that was killed some records come
again. docs/scripts.md tells what a script returns.]]

local MOST = 500                          -- records that are read at once
local SLICE_MS = 200                      -- how long a wait goes on before signals are looked at

function run.define(command)
  command:argument("SCRIPT", "The script."):target "script"
  command:argument("arguments", "What the script has as `...`."):argname("ARGUMENT"):args "*"
  arguments.store(command)
  arguments.partition(command, "Instead of a store:")
  arguments.reading(command, "committed, and what was never committed from the earliest on; of a partition's folder: earliest")
  command:option("--group", "The consumer group. Default: the script's own, else its file's name."):argname("NAME"):convert(arguments.name)
  command:flag("--no-commit", "Without a group: begin anew, and commit nothing.")
  command:flag("-q --quiet", "No progress, only what is wrong.")
end

-- ------------------------------------------------------------------------------------------------------------------------- one record

local function new_state(self, name)
  local state = {}
  if self.script.init then
    local done, message = self.script:call(self.script.init, state, self.store, name)
    if not done then return nil, message end
  end
  self.states[name] = state
  return state
end

-- The state that a record belongs to; false: none, the script passes it over. nil, message.
local function state_of(self, record)
  if not self.script.key then return self.states end
  local done, name = self.script:call(self.script.key, record)
  if not done then return nil, name end
  if name == nil then return false end
  if type(name) ~= "string" and type(name) ~= "number" or name ~= name then
    return nil, ("%s: key: a string or a number expected, got %s"):format(self.script.chunk, name ~= name and "nan" or type(name))
  end
  return self.states[name] or new_state(self, name)
end

-- The record is afterwards what it was before, whatever the script has made of it.
local function handle(self, record)
  local topic, p, offset, key, value, headers = record.topic, record.partition, record.offset, record.key, record.value, record.headers
  local state, message = state_of(self, record)
  local done = state == false
  if state then done, message = self.script:call(self.script.on_record, record, state) end
  record.topic, record.partition, record.offset, record.key, record.value, record.headers = topic, p, offset, key, value, headers
  return done, message
end

local function described(record, message)
  local key = record.key and '"' .. text.escaped(record.key) .. '"' or "none"
  return ("%s\n  in record %s-%d@%.0f, key %s"):format(message, text.escaped(record.topic), record.partition, record.offset, key)
end

-- Handles it, or puts it aside. nil, message, code.
local function attempt(self, record)
  local done, message = handle(self, record)
  if done then return true end
  if not self.dead then return nil, described(record, message), "script" end
  if record.headers then record.headers = self.source:headers_of(record) end       -- a table, which the script may have changed
  local why, code
  done, why, code = dead_letters.append(self.dead, record, message)
  if not done then
    local also = ("\n  and it cannot be put aside in %s: %s"):format(self.script.dead_letter, why)
    return nil, described(record, message .. also), code
  end
  self.put_aside = self.put_aside + 1
  return true
end

-- ---------------------------------------------------------------------------------------------------------------------------- all of them

-- What is handled is committed; in the middle of what was read, that much of it. What the script has printed must not be lost behind it,
-- and of what could not be written once a later flush says nothing.
local function commit(self)
  if not self.unwritten then
    local flushed, why = text.flush()
    self.unwritten = not flushed and why
  end
  if self.unwritten then return nil, self.unwritten, "io" end
  local done, message, code = self.source:commit(self.in_hand and self.handled or nil)
  if not done then return nil, "the commit failed: " .. message, code end
  self.handled, self.since = {}, 0
  return true
end

local function note(self, record)
  local partitions = self.handled[record.topic] or {}
  self.handled[record.topic], partitions[record.partition] = partitions, record.offset + 1
  self.since = self.since + 1
  self.progress:add(record)
end

-- True when it is through; false when a signal came; nil, message, code. Then the rest is still in hand.
local function work_through(self, list)
  self.in_hand = true
  for _, record in ipairs(list) do
    if core.caught_signal() then return false end
    local done, message, code = attempt(self, record)
    if not done then return nil, message, code end
    note(self, record)
  end
  self.in_hand = false
  return true
end

local function is_due(self, list)
  local every = self.script.commit_every
  return every and self.since > 0 and (self.since >= every or #list == 0)
end

-- What on_corrupt raises is the script's failure.
local function read(self)
  local every = self.script.commit_every
  local most = every and math.min(MOST, every - self.since) or MOST
  local ok, list, message, code = pcall(self.source.read, self.source, most, self.follow and SLICE_MS or 0)
  if not ok then return nil, tostring(list), "script" end
  return list, message, code
end

-- Reads and handles some. "more", "end", "signal"; nil, message, code.
local function step(self)
  local list, message, code = read(self)
  if not list then return nil, message, code end
  local done
  done, message, code = work_through(self, list)
  if done == nil then return nil, message, code end
  if done and is_due(self, list) then
    local committed
    committed, message, code = commit(self)
    if not committed then return nil, message, code end
  end
  self.progress:tick()
  if core.caught_signal() then return "signal" end
  if self.follow then return "more" end
  if #list == 0 then return "end" end
  done, message, code = self.source:is_done()
  if done == nil then return nil, message, code end
  return done and "end" or "more"
end

-- ------------------------------------------------------------------------------------------------------------------------------ the end

local function last_words(self)
  local aside = self.put_aside > 0 and (", %s put aside in %s"):format(text.grouped(self.put_aside), self.script.dead_letter) or ""
  return aside .. (self.source.group and "; committed for group " .. text.escaped(self.source.group) or "")
end

-- All is handled that is to be: the script's own end, and only then the commit, so that what it makes of its state is not lost.
local function end_well(self)
  if self.script.on_done then
    self.progress:erase()
    local done, message = self.script:call(self.script.on_done, self.states, self.store)
    local undone = self.source.group and "; what came since the last commit is not committed" or ""
    if not done then return nil, message .. "\n  in on_done" .. undone end
  end
  local done, message, code = commit(self)
  if not done then return nil, message, code end
  self.progress:finish(last_words(self))
  local signal = core.caught_signal()
  return signal and 128 + signal or 0
end

local AGAIN = { resync = true, offset_out_of_range = true }

-- Something failed: what was handled before it is committed, unless the script has not made anything of it yet (commit_every = false).
local function end_badly(self, message, code)
  self.progress:erase()
  if AGAIN[code] then message = message .. "\n  (--from earliest begins anew)" end
  if not self.source.group or not self.script.commit_every then return nil, message, code end
  local done, why = commit(self)
  return nil, message .. (done and "\n  what came before is committed; the next run goes on there" or "\n  " .. why), code
end

local function work(self)
  local state, message, code = "more", nil, nil
  while state == "more" do state, message, code = step(self) end
  if not state then return end_badly(self, message, code) end
  return end_well(self)
end

-- ---------------------------------------------------------------------------------------------------------------------------- beginning

-- Topics that are defined and missing are made. One that is there is never changed from here.
local function make_topics(self)
  local steps, message, code = plan.make(self.store, self.script.definitions, { only_tell = true })
  if not steps then return nil, message, code end
  for _, s in ipairs(steps) do
    if s.kind == "make" or s.kind == "put" then
      local done
      done, message, code = plan.perform(self.store, s)
      if not done then return nil, message, code end
    elseif s.kind == "alter" or s.kind == "replace" then
      local differs = "%s '%s' is not as the script defines it; `sediment apply --dry-run %s` tells how"
      text.complain("sediment run", differs:format(s.text and "policy script" or "topic", s.name, self.script.path))
    end
  end
  return true
end

-- A position is not moved under others' feet; Kafka's tools refuse that, too.
local function begin_at(self, from)
  if from == nil or from == "committed" then return true end
  local group = self.source.group
  if not group then return self.source:seek(from) end
  local known, message, code = self.store:group(group)
  if not known then return nil, message, code end
  if known.members == 1 then return self.source:seek(from) end
  return nil, ("group '%s' has other members now; --from moves it when they have ended"):format(group), "busy"
end

local function init(self)
  if not self.script.init or self.script.key then return true end
  local done, message, code = self.script:call(self.script.init, self.states, self.store)
  if not done then return nil, message .. "\n  in init", code end
  return true
end

local function perform(self, given)
  local done, message, code = begin_at(self, given.from)
  if done then done, message, code = init(self) end
  if done then done, message, code = self.source:note_end() end
  if not done then return nil, message, code end
  self.progress = Progress.new("sediment run", function() return self.source:lag() end, given.quiet)
  return work(self)
end

local function close(self, ok, status, message, code)
  local closed, why, what = self.source:close()
  if not ok then error(status, 0) end
  if status and not closed then return nil, why, what end
  return status, message, code
end

local function over_store(self, store, given)
  self.store = store
  if #self.script.reads == 0 then
    return nil, self.script.chunk .. ": it reads nothing: topics or from expected, with another one than dead_letter"
  end
  local done, message, code = make_topics(self)
  if not done then return nil, message, code end
  if self.script.dead_letter then
    self.dead, message, code = dead_letters.open(store, self.script.dead_letter)
    if not self.dead then return nil, message, code end
  end
  self.source, message, code = source.of_store(store, {
    topics = self.script.reads, group = not given.no_commit and (given.group or self.script.group) or nil,
    on_corrupt = self.script.on_corrupt, isolation = self.script.isolation,
  })
  if not self.source then return nil, message, code end
  return close(self, pcall(perform, self, given))
end

local function over_partition(self, given)
  if given.store or given.group then return nil, "--partition is read without a store or a group", "usage" end
  local message, code
  self.source, message, code = source.of_partition(given.partition, self.script)
  if not self.source then return nil, message, code end
  return close(self, pcall(perform, self, given))
end

function run.execute(given)
  if given.from == "committed" and (given.partition or given.no_commit) then
    return nil, "--from committed: without a group nothing is committed", "usage"
  end
  local self = { follow = given.follow, states = {}, handled = {}, since = 0, put_aside = 0, in_hand = false }
  local message
  self.script, message = script.load(given.script, given.arguments, function(...)
    if self.progress then self.progress:erase() end
    print(...)
  end, stores.configs(given))
  if not self.script then return nil, message end
  core.catch_signals()
  if given.partition then return over_partition(self, given) end
  return stores.with(given, {}, function(store) return over_store(self, store, given) end)
end

return run

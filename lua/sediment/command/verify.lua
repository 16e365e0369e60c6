-- sediment verify: reads everything, and tells what is damaged.
local sediment = require "sediment"
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local verify = { summary = "Read everything and tell what is damaged." }

verify.description = [[
Reads every record and every side file of a store, beside those who use it, and changes nothing. Harm is "data" where records are lost or
cannot be read, "derived" where it is an index or the like, which the next opening makes anew. Exit status 1: there are problems.]]

function verify.define(command)
  command:argument("topic", "This topic only."):argname("TOPIC"):args "?"
  arguments.store(command)
  arguments.partition(command, "Instead of a store:")
end

local function print_problem(problem)
  local place = problem.file
  if problem.position then place = ("%s, byte %.0f"):format(place, problem.position) end
  if problem.offset then place = ("%s, offset %.0f"):format(place, problem.offset) end
  print(text.escaped(("%s: %s: %s (%s)"):format(problem.harm, place, problem.message, problem.code)))
end

local function tell(report, message, code)
  if not report then return nil, message, code end
  for _, problem in ipairs(report.problems) do print_problem(problem) end
  if report.dropped > 0 then print(("and %s more"):format(text.grouped(report.dropped))) end
  print(("%s in %s of %s, %s: %s"):format(text.count(report.records, "record"), text.count(report.segments, "segment"),
    text.count(report.partitions, "partition"), text.size(report.bytes),
    report.ok and "whole" or text.count(#report.problems + report.dropped, "problem")))
  return report.ok and 0 or 1
end

function verify.execute(given)
  if given.partition then
    if given.topic or given.store then return nil, "--partition is verified without a store or a topic", "usage" end
    local partition, message, code = sediment.open_partition(given.partition)
    if not partition then return nil, message, code end
    local status
    status, message, code = tell(partition:verify())
    partition:close()
    return status, message, code
  end
  return stores.with(given, { readonly = true }, function(store) return tell(store:verify { topic = given.topic }) end)
end

return verify

-- sediment apply: topics as a Lua file defines them.
local arguments = require "sediment.command.arguments"
local plan = require "sediment.command.plan"
local script = require "sediment.command.script"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local apply = { summary = "Make and change topics as a file defines them." }

apply.description = [[
Shows the difference between the topics that FILE defines and those of the store, and makes it. FILE is Lua and returns
{ name = { partitions = 4, retention_ms = "7d", ... }, ... }, or is a script for `sediment run`, whose topics are taken. A policy_script
that ends in .lua is a file beside it, and goes into the store too. What the store has and the file does not name is left alone. The
whole file is checked before anything is changed.]]

function apply.define(command)
  command:argument("FILE", "The definitions."):target "file"
  arguments.store(command)
  command:flag("-n --dry-run", "Show the difference only.")
  command:flag("--delete", "Delete topics that the file does not name, with their records.")
  command:flag("--reset", "Let configs that the file does not name go back to the store's default.")
end

-- Definitions in a field `topics`, as a script for `run` has them: of a topic called so the values would be no tables.
local function inner(given)
  for _, value in pairs(type(given.topics) == "table" and given.topics or {}) do
    if type(value) == "table" then return given.topics end
  end
  return given
end

-- The definitions of a file, or nil, message.
local function definitions_of(path, read_configs)
  local given, chunk = script.evaluate(path)
  if not given then return nil, chunk end
  if type(given.on_record) == "function" then
    local loaded, message = script.load(path, nil, nil, read_configs)
    return loaded and loaded.definitions, message
  end
  local list, message = script.definitions(inner(given), path, read_configs)
  return list, list or chunk .. ": " .. message
end

local DONE = { make = "made", alter = "changed", delete = "deleted" }
local SCRIPTS = { put = "put there", replace = "replaced" }

local function summary(counts, dry)
  local parts = {}
  for _, kind in ipairs { "make", "alter", "delete" } do
    if counts[kind] then parts[#parts + 1] = text.count(counts[kind], "topic") .. (dry and " to be " or " ") .. DONE[kind] end
  end
  for _, kind in ipairs { "put", "replace" } do
    if counts[kind] then parts[#parts + 1] = text.count(counts[kind], "policy script") .. (dry and " to be " or " ") .. SCRIPTS[kind] end
  end
  print(#parts > 0 and table.concat(parts, ", ") or "nothing to change")
end

local function go_through(store, steps, dry)
  local counts = {}
  for _, step in ipairs(steps) do
    for _, line in ipairs(step.lines) do print(text.escaped(line)) end
    local done, message, code = true, nil, nil
    if not dry then done, message, code = plan.perform(store, step) end
    if not done then return nil, message, code end
    if DONE[step.kind] or SCRIPTS[step.kind] then counts[step.kind] = (counts[step.kind] or 0) + 1 end
  end
  summary(counts, dry)
  return 0
end

function apply.execute(given)
  local definitions, message = definitions_of(given.file, stores.configs(given))
  if not definitions then return nil, message end
  local options = { all = true, delete = given.delete, reset = given.reset }
  local function body(store)
    local steps, why, code = plan.make(store, definitions, options)
    if not steps then return nil, why, code end
    return go_through(store, steps, given.dry_run)
  end
  local status, why, code = stores.with(given, { readonly = given.dry_run }, body)
  if code ~= "not_found" or stores.exist(given) then return status, why, code end
  if given.dry_run then return body(nil) end
  local steps
  steps, why, code = plan.make(nil, definitions, options)                  -- what is refused leaves no store behind
  if not steps then return nil, why, code end
  return stores.with(given, { create = true }, body)
end

return apply

-- The difference between topics as a file defines them and those of a store, and making it.
--
-- Values are compared as they work: "7d" is 604800000, and a config that is defined as what it is by default is no difference. What the
-- store has and the file does not name, topics as well as configs, is left alone unless that was asked for.
local core = require "sediment.core"
local policies = require "sediment.command.policies"
local text = require "sediment.command.text"

local plan = {}

local function sorted(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- What of a topic differs: { kind = "alter", name=, set = { config = value }, reset = { config, ... }, lines = { text, ... } }; "same" when
-- nothing does. nil, message, code.
local function compare(topic, definition, options)
  local name, set, lines, back, reset = definition.name, {}, {}, {}, options.reset
  local described, message, code = topic:describe()
  if not described then return nil, message, code end
  local count, wanted = topic:partitions(), definition.partitions
  if wanted and wanted ~= count then
    set.partitions, lines[1] = wanted, ("~ %s: partitions %d -> %d"):format(name, count, wanted)
  end
  for _, config in ipairs(sorted(described)) do
    local new, old = definition.config[config], described[config]
    if new ~= nil and new ~= old.value then
      set[config] = new
      lines[#lines + 1] = ("~ %s: %s %s (%s) -> %s"):format(name, config, text.value(old.value), old.source, text.value(new))
    elseif new == nil and old.source == "topic" then
      if reset then back[#back + 1] = config end
      lines[#lines + 1] = ("%s %s: %s %s %s"):format(reset and "~" or " ", name, config, text.value(old.value),
        reset and "-> the store's default" or "is not in the file")
    end
  end
  local differs = next(set) or back[1]
  return { kind = differs and "alter" or "same", name = name, set = set, reset = back, lines = lines }
end

local function new_topic(definition)
  local parts = { text.count(definition.partitions or 1, "partition") }
  for _, config in ipairs(sorted(definition.config)) do
    parts[#parts + 1] = config .. " " .. text.value(definition.config[config])
  end
  return { kind = "make", name = definition.name, given = definition.given,
           lines = { ("+ %s: %s"):format(definition.name, table.concat(parts, ", ")) } }
end

-- The step, or nil, message, code if it could not be made. What the library refuses as a mistake, such as configs that contradict those
-- that stay, does not name the topic.
local function checked(store, step, brings_policy)
  if getmetatable(store).__name ~= "sediment.store" then return step end         -- a cluster checks as it makes
  local configs = step.given or step.set
  if brings_policy then configs = policies.without(configs) end
  local ok, done, message, code = pcall(core.check_topic, store, step.name, configs, step.reset)
  if ok and done then return step end
  if not ok then message = ("topic '%s': %s"):format(step.name, done) end
  return nil, message .. "; nothing was changed", code
end

-- Of a store that is still to be made.
local function first_topic(definition)
  local named = definition.config["policy.script"]
  if named and named ~= "" and not definition.policy then
    return nil, ("topic '%s': there is no policy script '%s' yet; nothing was changed"):format(definition.name, named), "not_found"
  end
  return new_topic(definition)
end

-- A script that decides of keys wants a topic that is compacted: nil, message, code.
local function fits(definition, topic)
  local config = definition.config["cleanup.policy"]
  if config == nil and topic then config = topic:config()["cleanup.policy"] end
  if not definition.policy or not definition.policy.of_keys or (config or ""):find "compact" then return true end
  local wrong = "topic '%s': policy script '%s' decides of keys, and the topic is not compacted; its cleanup.policy would have to " ..
    "include compact; nothing was changed"
  return nil, wrong:format(definition.name, definition.policy.name), "policy"
end

local function step_of(store, definition, options)
  if not store then
    local fit, message, code = fits(definition)
    if not fit then return nil, message, code end
    return first_topic(definition)
  end
  local topic, step, message, code
  topic, message, code = store:topic(definition.name)
  if topic or code == "unknown_topic" then
    local fit, why, what = fits(definition, topic)
    if not fit then return nil, why, what end
  end
  if topic then step, message, code = compare(topic, definition, options)
  elseif code == "unknown_topic" then step = new_topic(definition) end
  if not step then return nil, message, code end
  if options.only_tell and step.kind ~= "make" then return step end
  return checked(store, step, definition.policy)
end

-- Those of the store that nobody defines. Its own, such as __consumer_offsets, are nobody's business.
local function add_unlisted(steps, store, definitions, delete)
  local names, message, code = store:topics()
  if not names then return nil, message, code end
  local defined = {}
  for _, d in ipairs(definitions) do defined[d.name] = true end
  for _, name in ipairs(names) do
    if not defined[name] and not name:find "^__" then
      steps[#steps + 1] = delete and { kind = "delete", name = name, lines = { "- " .. name } }
        or { kind = "same", name = name, lines = { "  " .. name .. " is not in the file" } }
    end
  end
  return true
end

--- What must be done: a list of steps, each with `kind` ("make", "alter", "delete", "same"; "put", "replace" for policy scripts), `name`
--- and `lines` that show it. Nothing is changed. Without a store all is new. Options: all = true, also what is not defined is told; delete
--- = true, such topics go; reset = true, such configs go back to their default; only_tell = true: no topic will be altered, so nothing of
--- that is refused. nil, message, code: also of what could not be done.
function plan.make(store, definitions, options)
  local steps, why, what = policies.steps(store, definitions)
  if not steps then return nil, why, what end
  for _, definition in ipairs(definitions) do
    local step, message, code = step_of(store, definition, options)
    if not step then return nil, message, code end
    steps[#steps + 1] = step
  end
  if store and options.all then
    local done, message, code = add_unlisted(steps, store, definitions, options.delete)
    if not done then return nil, message, code end
  end
  return steps
end

local function put_policy(store, step) return store:policy(step.name, step.text) end

local PERFORM = {
  put = put_policy, replace = put_policy,
  make = function(store, step) return store:topic(step.name, step.given) end,
  alter = function(store, step)
    local topic, message, code = store:topic(step.name)
    if not topic then return nil, message, code end
    return topic:alter(step.set, step.reset)
  end,
  delete = function(store, step) return store:delete_topic(step.name, { if_exists = true }) end,
  same = function() return true end,
}

--- Makes one. nil, message, code; also of what the library refuses as a mistake, such as configs that contradict those that stay.
function plan.perform(store, step)
  local ok, done, message, code = pcall(PERFORM[step.kind], store, step)
  if ok and done then return true end
  if not ok then message = tostring(done) end
  if step.text then return nil, message, code end
  return nil, ("topic '%s': %s"):format(step.name, message), code
end

return plan

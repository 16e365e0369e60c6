-- Policy scripts that a file of topics brings along: `policy_script = "sessions.lua"` is a file beside it, which the store gets under the
-- name `sessions`, for that is what a config can name.
local core = require "sediment.core"

local policies = {}

local CONFIGS = { "policy_script", "policy.script" }

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text
  text, message = file:read "*a"
  file:close()
  if not text then return nil, path .. ": " .. message end
  return text
end

local function copy(configs)
  local fresh = {}
  for name, value in pairs(configs) do fresh[name] = value end
  return fresh
end

--- The configs of a topic in the file `path`, with a name where they had a policy script's file, and that script, { name=, text=,
--- file= }; nil where they had none. nil, message.
function policies.take(configs, path)
  for _, config in ipairs(CONFIGS) do
    local file = configs[config]
    local name = type(file) == "string" and file:match "([^/]+)%.lua$"
    if name then
      local text, message = read(file:find "^/" and file or (path:match "^.*/" or "") .. file)
      if not text then return nil, message end
      local named = copy(configs)
      named[config] = name
      return named, { name = name, text = text, file = file }
    end
  end
  return configs
end

--- The configs without the script's name: to be checked before the script is there.
function policies.without(configs)
  local fresh = copy(configs)
  for _, config in ipairs(CONFIGS) do fresh[config] = nil end
  return fresh
end

-- { kind = "put" or "replace" or "same", name=, text=, lines = { text } }, whether it decides of keys; nil, message, code.
local function step_of(store, script)
  local ok, good, message, code = pcall(core.check_policy, script.name, script.text)
  if not ok or not good then return nil, ("%s: %s; nothing was changed"):format(script.file, ok and message or good), code end
  local old, problem, why
  if store then old, problem, why = store:policy(script.name) end
  if why == "unsupported" then return nil, problem, why end
  if old == script.text then return { kind = "same", lines = {} }, message end
  local there = old or why == "corrupt"
  local lines = { (there and "~" or "+") .. " policy script " .. script.name }
  return { kind = there and "replace" or "put", name = script.name, text = script.text, lines = lines }, message
end

--- The steps for the scripts that the definitions bring, each once; notes in these whether they decide of keys. nil, message, code.
function policies.steps(store, definitions)
  local steps, texts = {}, {}
  for _, d in ipairs(definitions) do
    local script = d.policy
    if script and texts[script.name] and texts[script.name] ~= script.text then
      return nil, ("two different policy scripts have the name '%s'"):format(script.name)
    end
    if script then
      local step, of_keys, code = step_of(store, script)
      if not step then return nil, of_keys, code end
      if not texts[script.name] then steps[#steps + 1] = step end
      texts[script.name], script.of_keys = script.text, of_keys
    end
  end
  return steps
end

return policies

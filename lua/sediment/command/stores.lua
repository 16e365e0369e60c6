-- Which store a command is about, and opening it.
--
-- Nothing runs in the background of a command: it knows only the configs that the store keeps, not the `defaults` that the store's programs
-- give, and by others than theirs nothing may be deleted.
local sediment = require "sediment"
local core = require "sediment.core"

local stores = {}

--- Whether there is a file or a folder of that name.
function stores.exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

--- The folder, or a cluster's address: --store, else SEDIMENT_STORE, else the working directory if it is one. nil, message, "usage".
function stores.path(given)
  local path = given.store or os.getenv "SEDIMENT_STORE"
  if path and path ~= "" then return path end
  if stores.exists "sediment.topics" then return "." end
  return nil, "which store? Give --store DIR or set SEDIMENT_STORE; the working directory is none", "usage"
end

--- Whether the folder that it would be is there.
function stores.exist(given)
  local path = stores.path(given)
  return path ~= nil and stores.exists(path)
end

--- What tells what configs of the store's topics mean: a cluster has more of them.
function stores.configs(given)
  local path = stores.path(given) or ""
  local there, configs = false, nil
  if path:find "^kafka://" then there, configs = pcall(require, "sediment.kafka.configs") end
  return there and configs.read or core.configs
end

-- A partition's folder is taken for a store now and then.
local function explain(path, message, code)
  if code == "not_found" and stores.exists(path .. "/00000000000000000000.log") then
    message = path .. " is a partition's folder, not a store; give it with --partition"
  end
  return nil, message, code
end

--- Opens the store; `options` are those of sediment.open. nil, message, code.
function stores.open(given, options)
  local path, message, code = stores.path(given)
  if not path then return nil, message, code end
  local store
  store, message, code = sediment.open(path, { background = false, create = options.create or false, readonly = options.readonly })
  if not store then return explain(path, message, code) end
  return store
end

local function finish(store, ok, result, message, code)
  local closed, why, what = store:close()
  if not ok then error(result, 0) end
  if result == nil then return nil, message, code end
  if not closed then return nil, why, what end
  return result
end

--- Opens the store, and closes it when body(store) is done: what that returned. nil, message, code.
function stores.with(given, options, body)
  local store, message, code = stores.open(given, options)
  if not store then return nil, message, code end
  return finish(store, pcall(body, store))
end

return stores

-- sediment backup: a copy of a store that is in use.
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"

local backup = { summary = "Copy a store that is in use." }

backup.description = [[
Makes the folder DIR, missing or empty, into a store of its own: a copy with all that was acknowledged before, durable when this is done.
On the same file system closed segments are hard links.]]

function backup.define(command)
  command:argument("DIR", "The folder for the copy."):target "to"
  arguments.store(command)
end

function backup.execute(given)
  return stores.with(given, {}, function(store)
    local done, message, code = store:backup(given.to)
    if not done then return nil, message, code end
    return 0
  end)
end

return backup

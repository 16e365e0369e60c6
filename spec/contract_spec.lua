-- What stores in a folder and stores on a Kafka cluster have in common, tried on either: contract/store.lua says on which.
local load_in = rawget(_G, "getfenv") and getfenv(1) or _ENV     -- busted's functions are in here, not in _G

local here = debug.getinfo(1, "S").source:gsub("^@", ""):gsub("[^/]*$", "")
local contract = require "contract.store"

describe("a store in a " .. contract.kind, function()
  after_each(contract.cleanup)
  for _, area in ipairs { "topics", "configs", "append", "read", "lookups", "consumers", "groups", "tables", "command" } do
    describe("and " .. area, assert(loadfile(here .. "contract/" .. area .. ".lua", "t", load_in)))
  end
end)

-- Afterwards, with memory again, in a fresh state: every record in the ledger is there once, and the store takes more.
local sediment = require "sediment"

return function(path, ledger)
  local store = assert(sediment.open(path, { background = false }))
  local topic = assert(store:topic("log", { partitions = 2 }))
  for p = 0, 1 do
    local found = {}
    for offset, _, value in topic:records { partition = p } do found[offset] = value end
    for offset, value in pairs(ledger[p]) do
      assert(found[offset] == value, ("partition %d, offset %d: %s instead of %s"):format(p, offset, tostring(found[offset]), value))
    end
  end
  assert(topic:append("key", "afterwards", { sync = true }))
  assert(store:close())
end

-- What clients were told against what a topic has.
local ledger = {}

--- Reads lines "key offset" of acknowledged appends.
function ledger.of(lines)
  local acknowledged, count = {}, 0
  for key, offset in lines:gmatch "(%S+) (%d+)\n" do
    assert(not acknowledged[key], key .. " was acknowledged twice")
    acknowledged[key], count = tonumber(offset), count + 1
  end
  return acknowledged, count
end

--- Fails unless every acknowledged key stands once in the topic, at its offset, and no key twice; returns how many records there are.
function ledger.check(topic, acknowledged)
  local found, count = {}, 0
  for p = 0, topic:partitions() - 1 do
    for offset, key in topic:records { partition = p } do
      assert(not found[key], key .. " is there twice")
      found[key], count = offset, count + 1
    end
  end
  for key, offset in pairs(acknowledged) do
    assert(found[key], key .. " was acknowledged, and is not there")
    assert(found[key] == offset, key .. " is not where it was acknowledged")
  end
  return count
end

return ledger

-- sediment maintain: retention, compaction and the rest of what is due, for stores that no program has open.
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local maintain = { summary = "Do what is due: roll, retention, compaction, deletion, flush." }

maintain.description = [[
Does at once what a store's programs do in the background, by the configs that the topics have in the store. `defaults` that a program
gives to sediment.open are not known here: where programs rely on them, leave it to those.]]

function maintain.define(command) arguments.store(command) end

local function tell(r)
  print(("%s rolled, %s deleted (%s), %s compacted, %s removed, %s of deleted data removed, %s deleted by scripts, %s expired"):format(
    text.count(r.rolled, "segment"), text.count(r.segments, "segment"), text.size(r.bytes), text.count(r.cleaned, "partition"),
    text.count(r.tombstones_removed, "tombstone"), text.count(r.files_deleted, "file"), text.count(r.expired, "key"),
    text.count(r.offsets_expired, "commit")))
end

function maintain.execute(given)
  return stores.with(given, {}, function(store)
    local report, message, code = store:maintain()
    if not report then return nil, message, code end
    tell(report)
    if report.failed > 0 then return nil, ("%s failed: %s"):format(text.count(report.failed, "partition"), report.reason) end
    if report.uncleanable == 0 then return 0 end
    return nil, ("%s cannot be compacted for damage; `sediment verify` says where"):format(text.count(report.uncleanable, "partition"))
  end)
end

return maintain

-- Lists what Sediment reads in a bare partition directory:
--     lua5.4 list.lua PARTITIONDIR
package.path = (arg[0]:match "^.*/" or "./") .. "?.lua;" .. package.path
local listing = require "listing"
local partition = assert(require("sediment").open_partition(assert(arg[1], "usage: list.lua PARTITIONDIR")))

for offset, key, value, timestamp, headers in partition:records() do
  print(listing.record(offset, key, value, timestamp, headers))
end
print(string.format("# log start=%d end=%d", partition:earliest(), partition:latest()))
partition:close()

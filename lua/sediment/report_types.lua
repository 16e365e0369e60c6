---@meta
-- Annotations (LuaCATS): what store:maintain, topic:compact and store:verify report. Nothing requires this file.

---@class sediment.maintain_report
---@field rolled integer segments rolled by age
---@field sealed integer stages written to their segments
---@field segments integer segments that retention took
---@field bytes integer their bytes
---@field cleaned integer partitions cleaned
---@field tombstones_removed integer
---@field expired integer keys that policy scripts deleted: tombstones appended
---@field corrupt integer batches with a bad checksum that cleaning met: their partition is left as it was
---@field uncleanable integer compacted partitions that could not be cleaned, for damage or a failure
---@field files_deleted integer files whose deletion delay was over
---@field flushed integer partitions made durable
---@field failed integer partitions on which something failed
---@field offsets_expired integer commits of consumer groups that nobody uses any more, and of topics that are gone
---@field reason? string what failed last

---@class sediment.problem
---@field topic? string nil: of a file of the store's own
---@field partition? integer
---@field file string its path
---@field position? integer of a byte in it
---@field offset? integer from which records are affected
---@field code sediment.code `corrupt`; `not_found`, `io`, `unsupported`
---@field message string
---@field harm "data"|"derived" records; or an index or another side file, which the next opening makes anew

---@class sediment.verify_report
---@field ok boolean there are no problems
---@field topics integer that were looked at
---@field partitions integer
---@field segments integer
---@field batches integer that are whole
---@field records integer in them, and staged
---@field bytes integer of those batches
---@field problems sediment.problem[] at most 1,000
---@field dropped integer problems beyond those

---@class sediment.compact_report
---@field partitions integer cleaned; 0: there was nothing to do
---@field records_read integer
---@field records_written integer
---@field bytes_read integer
---@field bytes_written integer
---@field tombstones_removed integer
---@field keyless_dropped integer records without key, which compaction drops as Kafka does
---@field expired integer keys that a policy script deleted: tombstones appended
---@field corrupt integer batches with a bad checksum: their partition is left as it was
---@field seconds number

return {}

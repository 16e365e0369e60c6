---@meta
-- Annotations (LuaCATS) and reference of policy scripts: what they are told and may answer, and the store's methods for them.
-- docs/policies.md explains them. Nothing requires this file.
-- luacheck: ignore 212

---@alias sediment.verdict
---| "keep" # a segment: neither deleted nor compacted; a key: so many of its last records stay, all without a number
---| "delete" # a segment: when everything older has gone; a key: by a tombstone, unless it has been written meanwhile
---| "compact" # a segment: not deleted, may be compacted; a key: its last record stays

---What a script is: a chunk that returns this. Each function has 1,000,000 instructions and one second; what it raises keeps everything in
---the partition.
---@class sediment.policy_script
---@field key? fun(k: sediment.policy_key): sediment.verdict?, integer? nil: as "compact"; the number goes with "keep", 1 or more
---@field segment? fun(s: sediment.policy_segment): sediment.verdict? nil: as the topic's configs say

---@class sediment.policy_key
---@field key string
---@field topic string
---@field partition integer
---@field now integer milliseconds
---@field records integer in the log now, the active segment included
---@field bytes integer of their keys and values
---@field offset integer of the last one
---@field timestamp? integer of the last one; nil: it has none
---@field age? integer now - timestamp
---@field tombstone boolean the last one is

---A closed segment, or the active one as it would be. Retention asks as if everything older had gone, so `index` is 1 there.
---@class sediment.policy_segment
---@field topic string
---@field partition integer
---@field now integer milliseconds
---@field base_offset integer
---@field next_offset integer base of the one after it
---@field records integer
---@field size integer bytes
---@field first_timestamp? integer the largest of its first batch; nil: no record has one
---@field max_timestamp? integer
---@field age integer now less its largest timestamp, or its file's time where no record has one
---@field index integer 1: the oldest
---@field segments integer how many closed ones there are
---@field log_size integer bytes of those
---@field state "clean"|"dirty" a compaction without a script was here, or not

---@class sediment.store
local store = {}

---Policy scripts say what retention and compaction keep, for the topics whose config policy.script names them (docs/policies.md). With a
---script, checks it and puts it into the store under that name, in place of one that is there; durable on return, and used from the next
---retention or compaction on, in every process. With false, removes it. Without, reads it.
---@param name string 1 to 63 of a-z A-Z 0-9 _ -
---@param script? string|false Lua text, up to 64 KiB, that returns { key = function, segment = function } or one of them
---@return string|true|nil script true when it was put there or removed
---@return string? message
---@return sediment.code? code `policy` (the script is refused, with its line; a topic names the one to be removed), `not_found`,
---`too_large`, `corrupt`, `readonly`, `disk_full`, `io`
function store:policy(name, script) end

---@return string[]? names of the policy scripts, sorted
---@return string? message
---@return sediment.code? code
function store:policies() end

return { store }

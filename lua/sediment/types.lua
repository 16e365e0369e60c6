---@meta
-- Annotations (LuaCATS) and reference of what the C module offers; report_types.lua has what maintenance and verification report,
-- pending_types.lua appends that are not waited for. Nothing requires this file.
--
-- Common to all methods
--   * A runtime failure is returned as nil, message, code. `code` is one of sediment.code and part of the contract; the text is not.
--   * Misuse is raised: a wrong type, an unknown option or config, use after close.
--   * Offsets, times and partition numbers are whole numbers within 2^53 on both Luas. Times are milliseconds since the epoch.
--   * A partition argument left out is 0: records() and latest() of a topic with several partitions tell of its first.
--   * Keys, values, names and values of headers may be numbers. A whole number becomes its digits (24 and 24.0 are "24"; a float only
--     within 2^53), any other finite one, as a value, the shortest form that reads back as the same number. Different numbers never
--     become one text. Keys and names of headers must be whole; nan and inf are refused.
--   * No method yields or calls back, except into the `clock` function of the store and the `on_done` of append_async. append,
--     append_async, append_batch, records and the look-ups take microseconds plus at most one write; compact, retain, maintain, backup,
--     verify, flush, deliver, wait, records that follow and appends
--     with sync=true block the thread. In nginx use resty.sediment (docs/openresty.md), which yields there.
--   * Objects belong to the Lua state that made them. Several states and processes may have the same store open.
--   * After a fork, objects from before answer `forked` in the child.
-- luacheck: ignore 212

---@alias sediment.code
---| "offset_out_of_range" # outside [log start, log end]; both are in the message
---| "corrupt" # a file is damaged; which and where is in the message
---| "disk_full"
---| "io" # the operating system failed; its text is in the message
---| "closed"
---| "readonly" # the store, or the file system
---| "too_large" # over max.message.bytes or segment.bytes
---| "invalid_record" # no key under compact; an empty batch; a batch whose keys belong to several partitions
---| "invalid_timestamp" # below -1, which means none; or too far from the clock
---| "unknown_topic"
---| "unknown_partition"
---| "not_found" # the path is missing
---| "exists"
---| "locked" # another version has the store open, or a Kafka broker runs on it
---| "forked"
---| "resync" # deletions were compacted away before a consumer read them (docs/consumers.md)
---| "fenced" # a partition is another member's of the consumer group by now
---| "policy" # the topic's cleanup.policy does not allow it; fewer partitions than there are; a policy script failed, or is in use
---| "busy"
---| "unavailable" # of a Kafka cluster: no broker that could answer is to be reached
---| "timeout" # of a Kafka cluster: no answer within timeout_ms
---| "unauthorized" # by a Kafka cluster: who one is, or what one may do
---| "unsupported" # a codec that is not built in

---A setting's value: a number, true or false, a word, or a number with a unit: "7d", "1.5h", "30s", "512MiB", "64KB".
---@alias sediment.value string|number|boolean

---@class sediment.open_options
---@field readonly? boolean never write; default false
---@field create? boolean make the directory when it is missing; default true
---@field background? boolean retention, cleaning and flushing on a thread of one of the store's processes; default true
---@field defaults? table<string, sediment.value> topic configs for topics that do not set them; of this process and not kept, as a broker's
---config file is: every process that opens the store should give the same
---@field options? table<string, sediment.value> store options under Kafka's broker names, such as ["log.cleaner.dedupe.buffer.size"]
---@field clock? fun(): integer the time in milliseconds, instead of the machine's (os.time() is in seconds). What it raises comes out of
---the method that asked. Reading does not ask: earliest, latest, offset_for_time, records, segments, config, describe, topics, partitions
---@field timeout_ms? integer of a Kafka cluster ("kafka://host:port", docs/kafka-cluster.md) alone: how long a call may wait for it,
---default 30000; `options` are librdkafka's settings then

-- ---- stores ----

---@class sediment.store
local store = {}

---Opens a topic. With `config` ({} will do) it is created when missing, with `partitions` partitions (default 1), and the configs are
---applied to one that exists: that changes it as alter does, for every process, since configs are kept in the store. Without `config` the
---topic is opened as it is.
---@param name string 1 to 249 of a-z A-Z 0-9 . _ -
---@param config? table<string, sediment.value> topic configs by Kafka's names, with dots or underscores
---@return sediment.topic? topic
---@return string? message
---@return sediment.code? code `unknown_topic`, `policy`, `exists`, `readonly`, `io`, `disk_full`, `corrupt`
function store:topic(name, config) end

---With those that hold the store's own data, as in Kafka: __consumer_offsets, once a group has committed.
---@return string[]? names sorted
---@return string? message
---@return sediment.code? code
function store:topics() end

---The topic is gone from view at once and in every process; its bytes after file.delete.delay.ms.
---@param name string
---@param options? { if_exists?: boolean }
---@return true? done
---@return string? message
---@return sediment.code? code `unknown_topic`, `readonly`, `io`
function store:delete_topic(name, options) end

---Adopts a copy of a Kafka partition directory as a partition of the topic: segments, offsets, batches, leader epochs and delete
---horizons as they are, with the log start offset and the cleaner's checkpoint that the checkpoint files beside `dir` name. `dir` is
---only read. Every batch is verified and everything is durable before the topic shows it; after a failure nothing was imported. A
---missing topic is created with the store's defaults; one with fewer partitions gets more, those in between empty; a partition that is
---there must never have had a record. Retention applies at once: to keep old records, or to compact, create the topic with its configs
---first. What follows the last valid batch of the last segment, a torn end, is left out, and counted: in the second result, and in
---`truncated_bytes` of the topic's stats until the store is opened anew. A transaction that is still open stays so, since only a broker's
---coordinator would end it: read_committed readers see nothing from its first record on. `abort_open` ends each with a marker behind the
---last batch, at the store's clock.
---@param topic_name string
---@param dir string a bare partition directory of a broker, or of a store that is closed
---@param options? { partition?: integer, abort_open?: boolean } 0 and false when left out
---@return integer? log_end_offset
---@return integer|string|nil left_out bytes; the message on failure
---@return sediment.code? code `exists`, `not_found`, `corrupt`, `unsupported`, `busy`, `readonly`, `unknown_partition`, `disk_full`, `io`
function store:import(topic_name, dir, options) end

---Does at once what is due at `now`, whatever the check intervals: roll, retention, cleaning, delayed deletion, flush.
---@param options? { now?: integer }
---@return sediment.maintain_report? report
---@return string? message
---@return sediment.code? code
function store:maintain(options) end

---@return { topics: table<string, sediment.topic_stats> }? stats
---@return string? message
---@return sediment.code? code
function store:stats() end

---The store's stats in Prometheus' text format, for a page that it scrapes: a series a partition with the labels topic and partition
---(sediment_log_end_offset, sediment_size_bytes, ...), sediment_uncleanable_partitions and sediment_unretained_partitions of the whole
---store, and, with the labels group, topic and partition, sediment_consumer_group_offset and sediment_consumer_group_lag.
---@return string? text
---@return string? message
---@return sediment.code? code
function store:metrics() end

---Makes a folder into a store of its own: a copy of this one, durable on return, with every record that was acknowledged before the call.
---Others may append, delete and clean meanwhile, in any process; each partition is copied as of one moment of its own. Closed segments
---are shared by hard links on the same file system, and copied to another; neither store changes a file of the other later. A store that
---was opened read-only will do. A backup that fails leaves nothing; one that is killed leaves a folder that does not open.
---@param path string missing, or an empty folder; not in the store
---@return true? done
---@return string? message
---@return sediment.code? code `exists`, `not_found`, `busy`, `io`, `disk_full`
function store:backup(path) end

---Reads everything: checksums, records, offsets, indexes, digests, the small files. It never writes and holds no lock; appends, retention
---and cleaning go on and are no findings. A problem does not end it: it goes on behind the damage.
---@param options? { topic?: string } one topic only
---@return sediment.verify_report? report
---@return string? message
---@return sediment.code? code `unknown_topic`, `busy`
function store:verify(options) end

---@class sediment.table_options
---@field decode? fun(value: string, key: string): any makes the value that the table keeps; nil: the key has no value. When it raises, the
---table stays in front of that record, and `update` (or the opening) raises again until it succeeds; a table that is opened anew decodes
---only the last value of each key
---@field on_change? fun(key: string, new: any, old: any) hears of each live key at opening, and then of every change; `new` is nil when the
---key is gone. When it raises, the change is made all the same, and it is not called again for it
---@field index? table<string, fun(value: any, key: string): any> by name, functions that give the key under which `lookup` finds a key;
---nil: under none. They raise as decode does
---@field snapshot? boolean|string true, or a name of up to 64 of a-z A-Z 0-9 _ -: it begins with what was saved of it, if the log has
---not overtaken that, and is saved by `snapshot`, `close`, and now and then by updates
---@field schema? string of the values that are saved: another one for another decode. A snapshot of another schema is not used
---@field snapshot_every? number records that an update must have applied since the last snapshot, and as many as there are keys, to write
---one by itself; default 100000; math.huge: never

---Opens a state table over a topic: the last value of every key. When it returns, the topic has been read up to its end. Of a key in
---several partitions, as after their number has grown, the table has what it has read last (README, Caveats). Of a partition that was
---imported with a transaction that is open it has nothing from there on, and `put` and `delete` say so.
---@param topic_name string
---@param options? sediment.table_options
---@return sediment.table? table
---@return string? message
---@return sediment.code? code `unknown_topic`, `busy`, `corrupt`, `io`, `unsupported`
function store:table(topic_name, options) end

---How many appends of append_async are under way: their result is not there, or was not told to their on_done yet.
---@return integer
function store:pending() end

---Takes the results of append_async that have come since the last call, and calls their on_done, on this thread.
---@param timeout_ms? integer waits so long at most for one, if there is none and any append is under way; default 0
---@return integer? count
---@return string? message
---@return sediment.code? code `forked`
function store:deliver(timeout_ms) end

-- ---- consumers ----

---@class sediment.consumer_options
---@field topics string[] at least one; each must be there
---@field group? string the consumer group, of at most 32767 bytes; nil: none, and nothing is committed
---@field auto_offset_reset? "earliest"|"latest"|"none" where to begin without a commit, or when the log does not have the offset any more;
---default "earliest"
---@field isolation? "committed"|"uncommitted" as of topic:records; default "committed"
---@field on_corrupt? "fail"|"skip"|fun(topic: string, partition: integer, from: integer, to: integer, message: string) at damage: poll
---answers `corrupt`, or goes on behind it, telling which offsets are left out (`to` exclusive); default "fail"

---Opens a consumer (docs/consumers.md). With a group it joins at once, and the partitions are divided anew among its members. It is for one
---Lua state, is left by close, by closing the store, and when the process ends, however.
---@param options sediment.consumer_options
---@return sediment.consumer? consumer
---@return string? message
---@return sediment.code? code `unknown_topic`, `readonly` (with a group), `busy` (1,024 members), `io`, `corrupt`
function store:consumer(options) end

---The consumer groups that have committed offsets of topics that are there.
---@return string[]? names sorted
---@return string? message
---@return sediment.code? code
function store:groups() end

---@param name string
---@return { members: integer, offsets: table<string, table<integer, { offset: integer, metadata: string, timestamp: integer }>> }? group
---members: how many live; offsets: by topic and partition
---@return string? message
---@return sediment.code? code `not_found`, `readonly`
function store:group(name) end

---Forgets what a group has committed.
---@param name string
---@return true? done
---@return string? message
---@return sediment.code? code `busy` (it has members), `not_found`, `readonly`
function store:delete_group(name) end

---@class sediment.consumer
local consumer = {} -- luacheck: ignore 241

---@class sediment.record
---@field topic string
---@field partition integer
---@field offset integer
---@field key? string
---@field value? string nil: a tombstone
---@field timestamp integer milliseconds, -1: none
---@field headers? string[][] { name, value } each

---The next records of the partitions that are this consumer's, in the order of offsets within each; the partitions take turns. Learns of
---members that came and went. What it gives is delivered, and not committed.
---@param options? { max?: integer, timeout_ms?: integer } max: of records, default 500 (and about 50 MB); timeout_ms: how long to wait when
---there is none, default 0
---@return sediment.record[]? records empty when there are none
---@return string? message
---@return sediment.code? code `offset_out_of_range`, `resync`, `corrupt`, `unknown_topic`, `io`, `unsupported`
function consumer:poll(options) end

---Iterates over records, one at a time; positions are those of the record in hand. Raises what poll answers, as an error object.
---@param options? { follow?: boolean, timeout_ms?: integer, commit_every?: integer } follow: waits at the end, so long, or for ever;
---commit_every: commits when so many have been handled, and at the end
---@return fun(): sediment.record?
function consumer:records(options) end

---Notes where the group has come to: all of it or nothing. Written on return: it survives the death of any process; with sync = true a loss
---of power, too.
---@param what? sediment.record|table<string, table<integer, integer|{ offset: integer, metadata?: string }>> nil: all positions; a record:
---up to and with it, of its partition; else offsets that come next, by topic and partition
---@param options? { sync?: boolean }
---@return true? done
---@return string? message
---@return sediment.code? code `fenced`: a partition is another member's by now, nothing was written; `io`, `disk_full`
function consumer:commit(what, options) end

---What the group has committed of a partition, whoever has it.
---@param topic string
---@param p? integer
---@return integer? offset nil without a message: nothing
---@return string? metadata the message on failure
---@return sediment.code? code
function consumer:committed(topic, p) end

---The offset of the next record that poll gives.
---@param topic string
---@param p? integer
---@return integer? offset
---@return string? message
---@return sediment.code? code `fenced`: it is another member's; `unknown_topic`, `unknown_partition`, and as poll
function consumer:position(topic, p) end

---Goes on elsewhere, with nothing missed (`resync`) up to now. An offset outside the log is found at the next poll, as if retention had
---passed it.
---@param topic string
---@param p integer
---@param to integer|"earliest"|"latest"|{ time: integer }
---@return true? done
---@return string? message
---@return sediment.code? code as position
function consumer:seek(topic, p, to) end

---Leaves a partition out of polls until it is resumed; it stays this consumer's.
---@param topic string
---@param p? integer
---@return true? done
---@return string? message
---@return sediment.code? code as position
function consumer:pause(topic, p) end

---@param topic string
---@param p? integer
---@return true? done
---@return string? message
---@return sediment.code? code as position
function consumer:resume(topic, p) end

---The partitions that are this consumer's now.
---@return table<string, integer[]>? partitions by topic, ascending
---@return string? message
---@return sediment.code? code
function consumer:assignment() end

---How many offsets this consumer's partitions have ahead, from the position, else the commit, else the log start.
---@return { total: integer, topics: table<string, table<integer, integer>> }? lag
---@return string? message
---@return sediment.code? code
function consumer:lag() end

---Leaves the group, whose others take over. Commits nothing. May be called again.
---@return true? done
---@return string? message
---@return sediment.code? code
function consumer:close() end

-- ---- closing a store ----

---Seals and checkpoints; what was appended is in its file on return, though not synced. Topics, iterators and tables of the store raise
---"use after close" from then on. What append_async has begun is waited for, and told, before; results stay. May be called again. When the
---`clock` raises, the store closes with the last time that it told, and then what it raised is raised.
---@return true? done the store is closed in any case
---@return string? message
---@return sediment.code? code `io`, `disk_full`, and what an append failed with that was under way
function store:close() end

-- ---- topics ----

---@class sediment.topic
local topic = {}

---@class sediment.append_options
---@field timestamp? integer milliseconds since the epoch; default: the store's clock; -1: none
---@field headers? { [1]: string, [2]: string? }[] pairs of name and value
---@field partition? integer default: by the key's murmur2 as Kafka does; in turn for records without key
---@field sync? boolean survive the loss of power on return

---Appends a record. On return every process can read it and it survives the death of any process; with sync=true, or after
---flush, the loss of power, too.
---@param key string|number|nil nil is refused (`invalid_record`) under compact
---@param value string|number|nil nil, or left out, is a tombstone: `append("k")` deletes the key under compact
---@param options? sediment.append_options
---@return integer? offset
---@return integer|string partition or the message
---@return sediment.code? code `too_large`, `invalid_record`, `invalid_timestamp`, `unknown_partition`, `unknown_topic`, `readonly`,
---`disk_full`, `io`, `forked`: nothing was appended; but when the sync itself fails, the record is in the log, and the message says so
function topic:append(key, value, options) end

---Begins an append and does not wait for what makes it slow: the network of a cluster; in a store in a folder, where the record is appended
---at once, the disk that sync = true waits for. A failure is the result of the pending object, not of this call, but for `busy`.
---@param key string|number|nil
---@param value string|number|nil
---@param options? sediment.async_options
---@return sediment.pending? pending may be dropped: the record is delivered all the same
---@return string? message
---@return sediment.code? code `busy`: too much is under way, or too many results wait for an on_done; deliver, then try again
function topic:append_async(key, value, options) end

---@class sediment.record
---@field key? string|number
---@field value? string|number
---@field timestamp? integer
---@field headers? { [1]: string, [2]: string? }[]

---Appends records as a batch of their own: all or nothing, one partition.
---@param records sediment.record[]
---@param options? { partition?: integer, sync?: boolean, compression?: "none"|"gzip"|"snappy"|"lz4"|"zstd" } without partition, all keys
---must belong to the same one
---@return integer? first_offset
---@return integer|string last_offset or the message
---@return sediment.code? code as append's, and `unsupported`
function topic:append_batch(records, options) end

---@class sediment.records_options
---@field partition? integer default 0
---@field from? "earliest"|"latest"|integer|{ time: integer } default "earliest"; {time=ms}: the first record at or after it, else the end
---@field to? integer exclusive; default: the log end at this call
---@field isolation? "committed"|"uncommitted" default "committed": nothing aborted, nothing past the last stable offset; read_committed too
---@field on_corrupt? "fail"|"skip"|fun(from: integer, to: integer, message: string) default "fail": damage is raised, with the code
--- `corrupt`. "skip": what is damaged is left out, and reading goes on with the next batch that is whole. A function is told of each
--- damage before the record behind it comes: offsets from `from` up to, not including, `to` are left out, and the message says where. It
--- may raise, and must not yield.
---@field follow? boolean default false: true waits at the log's end for what any process appends
---@field timeout_ms? integer with follow: the iteration ends when nothing came for so long; default: never. With 0 it does not wait, and
--- the iterator may be called again when it has given nil: there may be more

---    for offset, key, value, timestamp, headers in topic:records() do ... end
---Goes on through segments that retention deletes meanwhile. Any failure, also of this call, is raised as an error object with the fields
---`message` and `code`, whose tostring is the message.
---@param options? sediment.records_options
---@return fun(): integer?, string?, string?, integer?, table? iterator
function topic:records(options) end

---How many partitions the topic has; they are numbered from 0.
---@return integer? count
---@return string? message
---@return sediment.code? code `unknown_topic`
function topic:partitions() end

---The log start offset.
---@param p? integer
---@return integer? offset
---@return string? message
---@return sediment.code? code `unknown_partition`, `unknown_topic`, `io`, `corrupt`
function topic:earliest(p) end

---The log end offset: the next one to be written.
---@param p? integer
---@return integer? offset
---@return string? message
---@return sediment.code? code `unknown_partition`, `unknown_topic`, `io`, `corrupt`
function topic:latest(p) end

---Offset of the first record with this timestamp or a later one; nil alone when there is none.
---@param ms integer
---@param p? integer
---@return integer? offset
---@return string? message
---@return sediment.code? code `unknown_partition`, `unknown_topic`, `io`, `corrupt`
function topic:offset_for_time(ms, p) end

---Waits until the log end offset is larger than `offset`: a record there, or behind it, can be read. Returns the log end offset; nil alone
---when none came in time. Blocks the thread, and no other; what a signal's handler asks of Lua (Ctrl-C) ends it with that error. A wake-up
---comes with the append, of whichever process; to ask whether there is news costs no system call.
---@param offset integer
---@param timeout_ms? integer 0 or more; default: no limit
---@param p? integer
---@return integer? log_end_offset
---@return string? message
---@return sediment.code? code `unknown_partition`, `unknown_topic` (deleted meanwhile), `io`, `corrupt`
function topic:wait(offset, timeout_ms, p) end

---Moves the log start forward; durable on return.
---@param before_offset integer
---@param p? integer
---@return integer? log_start_offset
---@return string? message
---@return sediment.code? code `policy` under compact without delete, `offset_out_of_range`, `readonly`, `io`
function topic:delete_records(before_offset, p) end

---Closes the active segment and begins another.
---@param p? integer
---@return integer? base_offset
---@return string? message
---@return sediment.code? code `readonly`, `io`, `disk_full`
function topic:roll(p) end

---Makes everything appended so far survive the loss of power. Waits for the disk, and first for all of the store that append_async has
---begun.
---@param p? integer
---@return integer? durable_offset
---@return string? message
---@return sediment.code? code `io`, `disk_full`, `readonly`
function topic:flush(p) end

---Deletes what retention.ms and retention.bytes no longer keep, in all partitions.
---@param options? { now?: integer }
---@return { segments: integer, bytes: integer }? report what went
---@return string? message
---@return sediment.code? code `readonly`, `io`; `policy`: the topic's policy script failed, and what it would have decided of stays
function topic:retain(options) end

---Cleans the partitions whose dirty ratio is above min.cleanable.dirty.ratio; with force=true all. The active segment is never cleaned
---(roll first to reach it) and min.compaction.lag.ms always holds.
---@param options? { force?: boolean, now?: integer }
---@return sediment.compact_report? report
---@return string? message
---@return sediment.code? code `policy` when cleanup.policy lacks compact, or the topic's policy script failed; `readonly`, `io`,
---`disk_full`
function topic:compact(options) end

---@class sediment.segment
---@field base_offset integer
---@field size integer bytes of its .log
---@field records integer
---@field max_timestamp integer -1: none has a timestamp
---@field state "clean"|"dirty"|"active"
---@field path string

---@param p? integer
---@return sediment.segment[]? segments
---@return string? message
---@return sediment.code? code `unknown_partition`, `unknown_topic`, `io`, `corrupt`
function topic:segments(p) end

---Effective values by dotted name. 2^63-1, "for ever", reads as math.maxinteger on Lua 5.4 and as the nearest double on LuaJIT.
---@return table<string, sediment.value>? config
---@return string? message
---@return sediment.code? code `unknown_topic`
function topic:config() end

---@return table<string, { value: sediment.value, source: "topic"|"store"|"default" }>? configs
---@return string? message
---@return sediment.code? code `unknown_topic`
function topic:describe() end

---Sets configs; those in the second list go back to the store's default; one in both is refused. More `partitions` may be given, never
---fewer; most keys go to another one then, and what they have stays where it is (README, Caveats).
---@param config table<string, sediment.value>
---@param names? string[]
---@return true? done
---@return string? message
---@return sediment.code? code `policy`, `unknown_topic`, `readonly`, `io`
function topic:alter(config, names) end

---@class sediment.partition_stats
---@field log_start_offset integer
---@field log_end_offset integer
---@field durable_offset integer
---@field size integer bytes
---@field segments integer
---@field clean_offset integer where the next cleaning begins
---@field dirty_ratio number
---@field purge_floor integer highest offset of any tombstone that was removed; -1: none was
---@field last_stable_offset integer where readers of committed records end: the log end, or where a transaction that is open begins
---@field truncated_bytes integer cut from the tail at the last opening, or left out by import; of a bare partition: behind its end
---@field corrupt_batches integer times that recovery, since the opening, or cleaning met a damaged batch; reading does not count
---@field keyless_dropped integer by cleaning, since the opening
---@field uncleanable? sediment.code why the last cleaning failed, such as "corrupt": store:verify() says where. nil: it did not. The
---partition is retained as ever, compact and maintain try it each time, the background after log.cleaner.backoff.ms, twice that, ..., an
---hour. Ends with a cleaning that does not fail, and when all processes have closed the store
---@field retention_failed? sediment.code why the last retention failed, such as "policy"; nil: it did not
---@field cleaned_ms integer time of the last cleaning that did not fail, whether it found anything to do or not; -1: none since the opening

---@class sediment.topic_stats
---@field partitions table<integer, sediment.partition_stats> from 0

---@return sediment.topic_stats? stats
---@return string? message
---@return sediment.code? code `unknown_topic`, `io`
function topic:stats() end

-- ---- bare partitions ----

---A Kafka partition directory opened read only. Its methods mean what a topic's do; a partition argument may say 0.
---@class sediment.partition
local partition = {}

---@param options? sediment.records_options
function partition:records(options) end

---@return integer? offset
function partition:earliest() end

---@return integer? offset
function partition:latest() end

---@param ms integer
---@return integer? offset
function partition:offset_for_time(ms) end

---As topic:wait. Where nobody has the store open, or a broker writes the folder, it looks every 50 ms.
---@param offset integer
---@param timeout_ms? integer
---@return integer? log_end_offset
---@return string? message
---@return sediment.code? code `io`, `corrupt`, `busy`
function partition:wait(offset, timeout_ms) end

---@return sediment.segment[]? segments
function partition:segments() end

---@return sediment.topic_stats? stats with the one partition as number 0
function partition:stats() end

---@return sediment.verify_report? report as store:verify's
---@return string? message
---@return sediment.code? code `busy`
function partition:verify() end

---@return true
function partition:close() end

-- ---- errors of iterators ----

---@class sediment.error
---@field message string
---@field code sediment.code

return { store, topic, partition }

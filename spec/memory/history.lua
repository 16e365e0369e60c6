-- What memory.c runs while memory is short: a program that uses all of the Lua module. It is called with the store's folder and the
-- ledger, a table { [partition] = { [offset] = value } } of what was acknowledged in topic "log"; it answers "memory" when it was told
-- that memory is short, and raises when something else went wrong.

-- LuaJIT's compiler is off: whether it survives that an allocation of its own fails, as it records or leaves a trace, is its own affair,
-- and would be told as ours.
local compiler = rawget(_G, "jit")
if compiler then compiler.off() end

local sediment = require "sediment"

-- "out of memory" is why a sync failed whose record was appended.
local function is_short(message)
  message = tostring(message)
  return message:find("not enough memory", 1, true) or message:find("out of memory", 1, true)
end

-- The first result, or the end of the history.
local function must(result, message, code)
  if result ~= nil then return result end
  error(code == "no_memory" and "not enough memory" or tostring(message), 0)
end

local function append(topic, ledger, value, options)
  local offset = must(topic:append("key", value, options))
  ledger[options and options.partition or 0][offset] = value
end

local function append_batch(topic, ledger, count)
  local batch = {}
  for i = 1, count do batch[i] = { key = i, value = "batch " .. i, headers = { { "number", i } } } end
  local first = must(topic:append_batch(batch, { partition = 1, compression = "gzip" }))
  for i = 1, count do ledger[1][first + i - 1] = "batch " .. i end
end

local function read(topic)
  local count = 0
  for p = 0, topic:partitions() - 1 do
    for _ in topic:records { partition = p, on_corrupt = function() end } do count = count + 1 end
  end
  topic:records { from = "earliest" }()                            -- a reader that is left open
  return count
end

local function use_state(store)
  local compacted = must(store:topic("state", { cleanup_policy = "compact", segment_bytes = 1000 }))
  for i = 1, 30 do must(compacted:append(i % 5, i % 7 > 0 and ("v"):rep(i) or nil)) end
  must(compacted:compact { force = true })
  local state = must(store:table("state", { on_change = function() end }))
  must(compacted:append("late", "1"))
  must(state:update())
  for _ in state:pairs() do state:count() end
  state:close()
end

local function use_snapshots(store)
  local options = {
    decode = function(value) return { value, size = #value } end, index = { by_size = function(value) return value.size end },
    snapshot = true, schema = "1", snapshot_every = 5,
  }
  local state = must(store:table("state", options))
  for i = 1, 12 do must(state:put("put " .. i % 3, ("v"):rep(i))) end
  must(state:wait(0))
  must(state:delete "put 1")
  must(state:snapshot())
  for _ in state:lookup("by_size", 12) do state:count() end
  state:close()
  options.index = nil
  local again = must(store:table("state", options))
  must(again:get "put 2")
  must(again:put("put 2", "more"))
  must(again:snapshot())
  for _ in again:pairs() do again:count() end
  again:close()
end

-- What a script cannot decide stays.
local function use_policy(store)
  must(store:policy("two", [[return {
    key = function(k) if k.key == "3" then return "delete" end return "keep", 2 end,
    segment = function() end,
  }]]))
  must(store:policies())
  must(store:policy "two")
  local kept = must(store:topic("kept", { cleanup_policy = "compact", policy_script = "two", segment_bytes = 1000 }))
  for i = 1, 30 do must(kept:append(i % 5, ("v"):rep(i))) end
  must(kept:retain())
  must(kept:compact { force = true })
  local count = {}
  for _, key in kept:records() do count[key] = (count[key] or 0) + 1 end
  for i = 0, 4 do assert((count[tostring(i)] or 0) >= 2, "records that were to stay have gone") end
  must(kept:alter({}, { "policy_script" }))
  must(store:policy("two", false))
end

local function look(topic)
  must(topic:stats())
  must(topic:segments())
  must(topic:config())
  must(topic:describe())
  must(topic:earliest())
  topic:offset_for_time(5)
end

local function run(path, ledger)
  local now = 1700000000000
  local function clock()
    now = now + 1
    return now
  end
  local store = must(sediment.open(path, { background = false, clock = clock, defaults = { segment_ms = "7d" } }))
  local topic = must(store:topic("log", { partitions = 2, retention_ms = -1 }))
  append(topic, ledger, "first", { partition = 0, headers = { { "a", "b" } } })
  append_batch(topic, ledger, 20)
  append(topic, ledger, "second", { partition = 0, sync = true })
  read(topic)
  look(topic)
  must(topic:alter({ segment_bytes = 5000 }, { "retention.ms" }))
  must(topic:roll(0))
  append(topic, ledger, "third", { partition = 1 })
  must(topic:retain())
  must(store:maintain())
  use_state(store)
  use_snapshots(store)
  use_policy(store)
  must(store:verify())
  must(store:backup(path .. "-backup"))
  must(store:delete_topic "state")
  local partition = must(sediment.open_partition(path .. "/log-0"))
  for _ in partition:records() do end
  must(partition:verify())
  partition:close()
  must(store:close())
end

return function(path, ledger)
  local ok, err = pcall(run, path, ledger)
  if ok then return nil end
  if is_short(type(err) == "table" and err.message or err) then return "memory" end
  error(err, 0)
end

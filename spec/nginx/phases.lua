-- Runs inside nginx: makes every call of resty.sediment in the phase that asks for it, and remembers which raised.
local sediment = require "resty.sediment"

local phases = { outcomes = {} }

local store, topic, state, saved, extra
local consumers = {}                      -- phase -> its consumer: some phases yield to others

local function consumer() return consumers[ngx.get_phase()] end

local CALLS = {
  { "open", function() return sediment.open(phases.path) end },
  { "topic", function() return store:topic("t", {}) end },
  { "append", function() return topic:append("k", "v") end },
  { "append_batch", function() return topic:append_batch { { key = "k", value = "v" } } end },
  { "append{sync=true}", function() return topic:append("k", "v", { sync = true }) end },
  { "append_batch{sync=true}", function() return topic:append_batch({ { key = "k", value = "v" } }, { sync = true }) end },
  { "append_async", function() return assert(topic:append_async("k", "v")) end },
  { "append_async{sync=true}", function() return assert(topic:append_async("k", "v", { sync = true })) end },
  { "pending:wait", function() return assert(topic:append_async("k", "v", { sync = true }):wait()) end },
  { "pending", function() return store:pending() end },
  { "deliver", function() return store:deliver() end },
  { "records", function() return topic:records()() end },
  { "records{follow=true}", function() return topic:records { from = "latest", follow = true, timeout_ms = 1 } () end },
  { "wait(offset, 0)", function() return topic:wait(topic:latest(), 0) end },
  { "wait", function() return topic:wait(topic:latest(), 1) end },
  { "earliest", function() return topic:earliest() end },
  { "latest", function() return topic:latest() end },
  { "partitions", function() return topic:partitions() end },
  { "offset_for_time", function() return topic:offset_for_time(0) end },
  { "segments", function() return topic:segments() end },
  { "config", function() return topic:config() end },
  { "describe", function() return topic:describe() end },
  { "stats", function() return store:stats() and topic:stats() end },
  { "metrics", function() return store:metrics() end },
  { "topics", function() return store:topics() end },
  { "policies", function() return store:policies() end },
  { "policy", function() return store:policy("p", "return { key = function() end }") end },
  { "alter", function() return topic:alter { retention_ms = -1 } end },
  { "roll", function() return topic:roll() end },
  { "delete_topic", function() return store:delete_topic("none", { if_exists = true }) end },
  { "table", function()
    local opened = assert(store:table "t")
    state = state or opened
  end },
  { "table{snapshot=}", function() saved = assert(store:table("t", { snapshot = true })) end },
  { "update", function() return state and state:update() end },
  { "put", function() return state and state:put("k", "v") end },
  { "put{sync=true}", function() return state and state:put("k", "v", { sync = true }) end },
  { "table:wait", function() return state and state:wait(1) end },
  { "table:wait(0)", function() return state and state:wait(0) end },
  { "snapshot", function() return saved and saved:snapshot() end },
  { "get", function() return state and state:get "k" end },
  { "consumer", function()
    local phase = ngx.get_phase()
    consumers[phase] = assert(store:consumer { group = phase, topics = { "t" } })
  end },
  { "poll", function() return consumer() and assert(consumer():poll()) end },
  { "poll{timeout_ms=}", function() return consumer() and assert(consumer():poll { timeout_ms = 1 }) end },
  { "commit", function() return consumer() and assert(consumer():commit()) end },
  { "committed", function() return consumer() and consumer():committed "t" end },
  { "position", function() return consumer() and assert(consumer():position "t") end },
  { "seek", function() return consumer() and assert(consumer():seek("t", 0, "latest")) end },
  { "pause", function() return consumer() and assert(consumer():pause "t") end },
  { "resume", function() return consumer() and assert(consumer():resume "t") end },
  { "assignment", function() return consumer() and assert(consumer():assignment()) end },
  { "lag", function() return consumer() and assert(consumer():lag()) end },
  { "consumer:records{follow=true}", function() return consumer() and consumer():records { follow = true, timeout_ms = 1 } () end },
  { "commit{sync=true}", function() return consumer() and assert(consumer():commit(nil, { sync = true })) end },
  { "consumer:close", function() return consumer() and assert(consumer():close()) end },
  { "groups", function() return store:groups() end },
  { "group", function() return store:group "g" end },
  { "delete_group", function() return store:delete_group "none" end },
  { "flush", function() return topic:flush() end },
  { "delete_records", function() return topic:delete_records(0) end },
  { "retain", function() return topic:retain() end },
  { "compact", function() return topic:compact() end },
  { "maintain", function() return store:maintain() end },
  { "import", function() return store:import("i", "/nowhere") end },
  { "backup", function() return store:backup(phases.path .. "-backup") end },
  { "verify", function() return store:verify() end },
  { "close", function() return extra:close() end },
}

-- In the master the handles are made; in the worker they are used, and `extra` is one that may be closed.
function phases.begin(path)
  phases.path = path
  store = assert(sediment.open(path))
  topic = assert(store:topic("t", {}))
end

function phases.try()
  local phase = ngx.get_phase()
  if phases.outcomes[phase] then return end
  if phase == "init" then extra = store
  else extra = assert(sediment.open(phases.path)) end
  local outcome = {}
  for _, call in ipairs(CALLS) do
    local done, message = pcall(call[2])
    outcome[call[1]] = done and "" or tostring(message)
  end
  phases.outcomes[phase] = outcome
end

-- Lines "phase<tab>call<tab>what it raised", in a file: the last phase has nobody to tell.
function phases.write(path)
  local f = assert(io.open(path, "w"))
  for phase, outcome in pairs(phases.outcomes) do
    for call, message in pairs(outcome) do f:write(phase, "\t", call, "\t", (message:gsub("%s", " ")), "\n") end
  end
  f:close()
end

return phases

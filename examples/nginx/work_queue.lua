-- Jobs in a topic of at least as many partitions as there are workers: each worker does those of its own, one after the other, from timers.
--   jobs        key the job's name, value its text; kept for a week             cleanup_policy = "delete"
--   results     the last result of each job, kept for good                      cleanup_policy = "compact"
--   positions   how far each partition has been done                            cleanup_policy = "compact"
--
-- A position moves on when the job before it is done and its result durable. So a worker that dies leaves its job to the one that takes its
-- place, which may do it again: at least once, and why the work must bear to be done twice.
local sediment = require "resty.sediment"

local work_queue = {}

local ATTEMPTS = 3

local jobs, results, positions, done

-- What is to be done with a job; raises when it cannot be.
local function work(text)
  ngx.sleep(0.005)
  if text == "fail" then error("it cannot be done", 0) end
  return ngx.md5(text)
end

local function finish(name, result) assert(results:append(name, result, { sync = true })) end

-- A job that fails goes to the end of the queue, until it has been tried often enough.
local function handle(name, text, attempt)
  local ok, result = pcall(work, text)
  if ok then return finish(name, "done: " .. result) end
  if attempt >= ATTEMPTS then return finish(name, "failed: " .. result) end
  assert(jobs:append(name, text, { sync = true, headers = { { "attempt", attempt + 1 } } }))
end

local function attempt_of(headers) return headers and tonumber(headers[1][2]) or 1 end

local function first_of(p)
  local noted = assert(work_queue.store:table "positions")
  local position = tonumber(noted:get(p)) or 0
  noted:close()
  return math.max(position, jobs:earliest(p))
end

-- Ends with the worker: the iteration does.
local function consume(_, p)
  for offset, name, text, _, headers in jobs:records { partition = p, from = first_of(p), follow = true } do
    handle(name, text, attempt_of(headers))
    assert(positions:append(p, offset + 1))
    if ngx.worker.exiting() then return end
  end
end

-- A consumer that fails, for want of disk for one, begins anew where the positions say.
local function consume_on(premature, p)
  if premature then return end
  local ok, err = pcall(consume, premature, p)
  if ok or ngx.worker.exiting() then return end
  ngx.log(ngx.ERR, "work queue: ", tostring(err))
  assert(ngx.timer.at(1, consume_on, p))
end

function work_queue.start(folder)
  local store = assert(sediment.open(folder))
  work_queue.store = store
  jobs = assert(store:topic("jobs", { retention_ms = "7d" }))
  if jobs:partitions() < ngx.worker.count() then assert(jobs:alter { partitions = ngx.worker.count() }) end
  results = assert(store:topic("results", { cleanup_policy = "compact" }))
  positions = assert(store:topic("positions", { cleanup_policy = "compact", segment_bytes = "1MiB" }))
  done = assert(store:table "results")
  for p = ngx.worker.id(), jobs:partitions() - 1, ngx.worker.count() do assert(ngx.timer.at(0, consume_on, p)) end
end

local METHODS = {
  POST = function(name)
    ngx.req.read_body()
    local offset, message = jobs:append(name, ngx.req.get_body_data() or "", { sync = true })
    if not offset then
      ngx.log(ngx.ERR, "job ", name, ": ", message)
      return ngx.exit(503)
    end
    ngx.status = 202
    ngx.say "accepted"
  end,
  GET = function(name)
    assert(done:update())
    local result = done:get(name)
    if not result then return ngx.exit(404) end
    ngx.say(result)
  end,
}

function work_queue.serve(name)
  local method = METHODS[ngx.req.get_method()]
  if not method then return ngx.exit(405) end
  method(name)
end

return work_queue

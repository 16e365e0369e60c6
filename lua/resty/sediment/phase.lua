-- What the phases of nginx allow. A call that takes time may yield in some, may block in those where no request waits for the worker, and
-- may do neither in the rest, where it is refused.
local get_phase = ngx.get_phase

local phase = {}

-- Where ngx.sleep works.
local YIELDS = {
  rewrite = true, server_rewrite = true, access = true, content = true, timer = true, preread = true,
  ssl_cert = true, ssl_session_fetch = true, ssl_client_hello = true,
}
-- Before the first request, and after the last.
local BLOCKS = { init_worker = true, exit_worker = true }

local NAMES = {
  timer = "a timer", ssl_cert = "ssl_certificate_by_lua*", ssl_session_fetch = "ssl_session_fetch_by_lua*",
  ssl_session_store = "ssl_session_store_by_lua*", ssl_client_hello = "ssl_client_hello_by_lua*",
}

local function name_of(now) return NAMES[now] or now .. "_by_lua*" end

-- In the master, before the workers are forked.
function phase.is_init() return get_phase() == "init" end

function phase.can_yield() return YIELDS[get_phase()] == true end

function phase.can_block() return BLOCKS[get_phase()] == true end

-- For what waits: "yield" or "block". Raises at the caller of the method, `level` above, where neither is allowed.
function phase.to_wait(call, level)
  local now = get_phase()
  if YIELDS[now] then return "yield" end
  if BLOCKS[now] then return "block" end
  error(call .. ": not in " .. name_of(now) .. ": it would block the worker, and this phase cannot yield; do it in a timer (ngx.timer.at)",
        level + 1)
end

-- For what works as long as it takes.
function phase.to_work(call, level)
  local now = get_phase()
  if BLOCKS[now] then return end
  error(call .. ": not in " .. name_of(now) .. ": it would block the worker; do it in init_worker_by_lua* or exit_worker_by_lua*, or in " ..
        "ngx.run_worker_thread with the plain module", level + 1)
end

-- For what needs the store: in the master it is not opened.
function phase.refuse_init(call, level)
  if get_phase() ~= "init" then return end
  error(call .. ": not in init_by_lua*: a store is opened in each worker, after the fork; do it in init_worker_by_lua* or later", level + 1)
end

return phase

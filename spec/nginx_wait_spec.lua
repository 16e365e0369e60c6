-- resty.sediment in a real nginx: waiting for records and for the disk without holding up the worker.
local disk = require "disk"
local support = require "support"
local server = require "nginx.server"

if server.missing then
  describe("resty.sediment", function() it("waits in nginx", function() pending(server.missing) end) end)
  return
end

describe("resty.sediment waits", function()
  local nginx, path, topic, pipes

  before_each(function()
    path, pipes = support.path(), {}
    topic = support.open(path):topic("t", {})
  end)
  after_each(function()
    if nginx then nginx:stop() end
    nginx = nil
    for _, p in ipairs(pipes) do p:close() end
    support.cleanup()
  end)

  local SERVER = [[
    lua_check_client_abort on;
    location /ready { content_by_lua_block { ngx.say(waiting or 0) } }
    location /wait {
      content_by_lua_block {
        waiting = (waiting or 0) + 1
        ngx.say(tostring(topic:wait(tonumber(ngx.var.arg_from), tonumber(ngx.var.arg_ms))))
      }
    }
    location /follow {
      content_by_lua_block {
        ngx.say "following"
        ngx.flush(true)
        local options = { follow = true, timeout_ms = tonumber(ngx.var.arg_ms) }
        options.from, options.to = tonumber(ngx.var.arg_from), tonumber(ngx.var.arg_to)
        local done, err = pcall(function()
          for offset, key in topic:records(options) do
            ngx.say(offset, " ", key)
            ngx.flush(true)
          end
        end)
        ngx.say(done and "end" or err.code)
      }
    }
    location /run {
      content_by_lua_block {
        ngx.req.read_body()
        local done, said = pcall(assert(loadstring(ngx.req.get_body_data())))
        ngx.say(tostring(said))
      }
    }
  ]]

  local function start(workers, more)
    nginx = server.start {
      workers = workers or 1,
      init_worker = ([[
        store = assert(require "resty.sediment".open("%s"))
        topic = assert(store:topic "t")
      ]]):format(path) .. (more or ""),
      server = SERVER,
    }
  end

  local function begin(url)
    local p = nginx:begin(url)
    pipes[#pipes + 1] = p
    return p
  end

  -- Runs Lua in a worker; what it returns.
  local function run(text) return (nginx:get("/run", "--data-binary '" .. text .. "'"):gsub("\n$", "")) end

  -- A request that is answered by the one worker, as it waits for the first: so that does not block it.
  local function is_waiting(n)
    repeat local now = tonumber(nginx:get "/ready") until now >= n
  end

  it("for a record, and answers others meanwhile", function()
    start()
    local p = begin "/wait?from=0"
    is_waiting(1)
    topic:append("k", "v")
    assert.equal("1\n", p:read "*a")
    assert.equal("1\n", nginx:get "/wait?from=0&ms=0")
    assert.equal("nil\n", nginx:get "/wait?from=1&ms=0")
    assert.equal("nil\n", nginx:get "/wait?from=1&ms=20")
    assert.equal("", nginx:errors())
  end)

  it("with one timer for many requests", function()
    start()
    local waiters = {}
    for i = 1, 60 do waiters[i] = begin("/wait?from=" .. i % 3) end
    is_waiting(60)
    assert.equal("1", run "return ngx.timer.running_count()")
    topic:append("k", "v")
    topic:append("k", "v")
    for i, p in ipairs(waiters) do
      if i % 3 ~= 2 then assert.equal("2\n", p:read "*a") end
    end
    topic:append("k", "v")
    for i, p in ipairs(waiters) do
      if i % 3 == 2 then assert.equal("3\n", p:read "*a") end
    end
  end)

  it("for what follows, in order, across segments, up to the end that was given", function()
    start(4)
    topic:append("before", "v")
    local p = begin "/follow?from=0&to=40"
    assert.equal("following", p:read "*l")
    assert.equal("0 before", p:read "*l")
    for i = 1, 50 do
      assert.equal(i, topic:append("k" .. i, "v"))
      if i % 10 == 0 then topic:roll() end
      if i < 40 then assert.equal(i .. " k" .. i, p:read "*l") end
    end
    assert.equal("end\n", p:read "*a")
    assert.equal("following\n49 k49\n50 k50\nend\n", nginx:get "/follow?from=49&ms=20")
  end)

  it("no longer than the worker lives", function()
    start(1)
    local waiter, follower = begin "/wait?from=0", begin "/follow"
    assert.equal("following", follower:read "*l")
    is_waiting(1)
    nginx:reload()
    assert.equal("nil\n", waiter:read "*a")
    assert.equal("end\n", follower:read "*a")
    assert.equal("", nginx:errors())
  end)

  it("no longer than the topic is there", function()
    start()
    local waiter, follower = begin "/wait?from=0", begin "/follow"
    assert.equal("following", follower:read "*l")
    is_waiting(1)
    run [[store:delete_topic "t"]]
    assert.equal("nil\n", waiter:read "*a")
    assert.equal("unknown_topic\n", follower:read "*a")
  end)

  it("also where nginx has no timer for it", function()
    start(1, "ngx.timer.at = function() return nil, 'no timer' end")
    local p = begin "/wait?from=0"
    is_waiting(1)
    topic:append("k", "v")
    assert.equal("1\n", p:read "*a")
  end)

  it("and forgets requests that are gone", function()
    start()
    assert.matches("timed out", nginx:get("/wait?from=0", "--max-time 0.2"))
    assert.equal("nil\n", nginx:get "/wait?from=0&ms=5")
    assert.equal("0", run [[
      for _ = 1, 50 do
        collectgarbage()
        ngx.sleep(0.001)
        if ngx.timer.running_count() == 0 then break end
      end
      return ngx.timer.running_count()
    ]])
  end)

  it("for the disk, and tells what is durable", function()
    start(4)
    topic:append("k", "v")
    assert.equal("1", run "return topic:flush()")
    assert.equal(1, topic:stats().partitions[0].durable_offset)
    local DURABLE = [[ .. " " .. topic:stats().partitions[0].durable_offset]]
    assert.equal("1 2", run([[return topic:append("k", "v", { sync = true })]] .. DURABLE))
    assert.equal("3 4", run([[return select(2, topic:append_batch({ { key = "a" }, { key = "b" } }, { sync = true }))]] .. DURABLE))
    assert.equal("5", run [[topic:append("k", "v") return topic:delete_records(5)]])
    assert.equal(5, topic:stats().partitions[0].durable_offset)
  end)

  it("for the disk in each partition of a topic that a batch may be in", function()
    topic:alter { partitions = 5 }
    start()
    for _, key in ipairs { "a", "b", "c", "d" } do
      run(([[return topic:append_batch({ { key = "%s", value = "v" } }, { sync = true })]]):format(key))
    end
    local durable = 0
    for p, stats in pairs(topic:stats().partitions) do
      assert.equal(stats.log_end_offset, stats.durable_offset, p)
      durable = durable + stats.durable_offset
    end
    assert.equal(4, durable)
  end)

  it("for the disk in the partition that a batch has gone to, and in no other", function()
    topic:alter { partitions = 3 }
    for p = 0, 1 do topic:append("k", "v", { partition = p }) end
    start()
    local batch = [[{ { key = "k", value = "v" }, { key = "k", value = "w" } }]]      -- a key of partition 2
    assert.equal("2", run('return select("#", topic:append_batch(' .. batch .. ', { sync = true }))'))
    local durable = {}
    for p, stats in pairs(topic:stats().partitions) do durable[p] = stats.durable_offset end
    assert.same({ [0] = 0, 0, 2 }, durable)
  end)

  it("for what changes a state table, in any partition, while others run", function()
    topic:alter { partitions = 2 }
    start(1, [[ state = assert(store:table "t") ]])
    assert.equal("0", run "return state:wait(1)")
    local waiting = nginx:begin("/run", [[--data-binary 'waiting = (waiting or 0) + 1 return state:wait(30000) .. " " .. state:get "k"']])
    is_waiting(1)
    topic:append("k", "v", { partition = 1 })
    assert.equal("1 v\n", waiting:read "*a")
    waiting:close()
    assert.equal("1 v2", run 'topic:append("k", "v2", { partition = 0 }) return state:wait() .. " " .. state:get "k"')
  end)

  it("no longer than the worker lives", function()
    start(1, [[ state = assert(store:table "t") ]])
    local waiting = nginx:begin("/run", [[--data-binary 'waiting = (waiting or 0) + 1 return state:wait()']])
    is_waiting(1)
    nginx:stop()
    assert.equal("0\n", waiting:read "*a")
    waiting:close()
  end)

  it("for no snapshot but at the end, which the next start begins with", function()
    local with_exit = {
      http = [[ exit_worker_by_lua_block { state:close() } ]],
      init_worker = ([[
        store = assert(require "resty.sediment".open("%s"))
        topic = assert(store:topic "t")
        state = assert(store:table("t", { snapshot = true, snapshot_every = 1 }))
      ]]):format(path), server = SERVER, workers = 1,
    }
    nginx = server.start(with_exit)
    assert.equal("log", run [[
      assert(state:put("k", "v"))
      return state:stats().origin
    ]])
    assert.matches("snapshot: not in content_by_lua", run "return state:snapshot()")
    local refused = "table{snapshot=}: not in content_by_lua"
    assert.matches(refused, run [[return select(2, pcall(store.table, store, "t", { snapshot = true }))]])
    assert.same({}, disk.list(path, "sediment.table-"))
    nginx:stop()
    assert.equal(1, #disk.list(path, "sediment.table-"))
    nginx = server.start(with_exit)
    assert.equal("snapshot v", run [[return state:stats().origin .. " " .. state:get "k"]])
  end)

  describe("no longer than a piece of a state table's update", function()
    local N, KEYS = 20000, 10000

    before_each(function()
      local records = {}
      for i = 1, N do records[i] = { key = "k" .. i % KEYS, value = "v" .. i } end
      for first = 1, N, 1000 do
        local batch = {}
        for i = 0, 999 do batch[i + 1] = records[first + i] end
        assert(topic:append_batch(batch))
      end
    end)

    it("and shows its values", function()
      start()
      assert.equal(("%d v%d"):format(KEYS, N), run [[
        state = assert(store:table "t")
        return state:count() .. " " .. state:get "k0"
      ]])
      topic:append("k0", "newer")
      topic:append("k1", nil)
      assert.equal("2 newer 9999", run [[return state:update() .. " " .. state:get "k0" .. " " .. state:count()]])
    end)

    -- How often others run while a worker does this.
    local function ticks_while(text)
      return tonumber(run(([[
        local ticks, done = 0, false
        local ticking = ngx.thread.spawn(function()
          while not done do
            ticks = ticks + 1
            ngx.sleep(0)
          end
        end)
        %s
        done = true
        ngx.thread.wait(ticking)
        return ticks
      ]]):format(text)))
    end

    it("giving way to others", function()
      start()
      local ticks = ticks_while [[assert(store:table "t")]]
      assert.is_true(ticks > KEYS / 512 - 2, ticks)
    end)

    it("and gives way as well when an iteration that follows is far behind", function()
      start()
      local ticks = ticks_while(("for _ in topic:records { follow = true, to = %d } do end"):format(N))
      assert.is_true(ticks > N / 512 - 2, ticks)
    end)

    it("one at a time", function()
      start()
      assert.equal("true 3", run [[
        state = assert(store:table "t")
        topic:append("a", "1")
        local running, most = 0, 0
        slow = assert(store:table("t", { decode = function(value)
          if value ~= "slow" then return value end
          running = running + 1
          most = math.max(most, running)
          ngx.sleep(0.005)
          running = running - 1
          return value
        end }))
        topic:append("a", "slow")
        local one, other = ngx.thread.spawn(slow.update, slow), ngx.thread.spawn(slow.update, slow)
        local _, first = ngx.thread.wait(one)
        local _, second = ngx.thread.wait(other)
        topic:append("b", "v")
        topic:append("c", "v")
        return tostring(most == 1) .. " " .. first + second + slow:update()
      ]])
    end)

    it("and writes through it once the others are done", function()
      start()
      assert.equal("slow put deleted nil", run [[
        state = assert(store:table("t", { decode = function(value)
          if value == "slow" then ngx.sleep(0.005) end
          return value
        end }))
        topic:append("a", "slow")
        local before, after
        local slow = ngx.thread.spawn(state.update, state)
        assert(state:put("b", "put", { sync = true }))
        before, after = state:get "a", state:get "b"
        ngx.thread.wait(slow)
        assert(state:put("c", "deleted"))
        local deleted = state:get "c"
        assert(state:delete "c")
        return before .. " " .. after .. " " .. deleted .. " " .. tostring(state:get "c")
      ]])
    end)

    it("not at all inside its own callback", function()
      start()
      assert.equal("busy", run [[
        local state, code
        state = assert(store:table("t", { on_change = function() if state then code = select(3, state:update()) end end }))
        topic:append("a", "1")
        assert(state:update())
        return code
      ]])
      assert.equal("busy busy busy", run [[
        local state, codes
        state = assert(store:table("t", { on_change = function()
          if state then codes = select(3, state:put("b", "1")) .. " " .. select(3, state:delete "b") .. " " .. select(3, state:wait(1)) end
        end }))
        topic:append("a", "2")
        assert(state:update())
        return codes
      ]])
    end)

    it("which others may go through while a snapshot becomes values", function()
      local plain = support.open(path)
      local state = plain:table("t", { snapshot = true })
      assert(state:snapshot())
      state:close()
      plain:close()
      start(1, [[ saved = assert(store:table("t", { snapshot = true })) ]])
      assert.equal(("snapshot %d newer nil"):format(KEYS - 100), run [[
        local origin = saved:stats().origin
        local function go_through() for _ in saved:pairs() do end end
        local one, other = ngx.thread.spawn(go_through), ngx.thread.spawn(go_through)
        for i = 0, 99 do assert(saved:delete("k" .. i * 100)) end
        assert(saved:put("k8", "newer"))
        ngx.thread.wait(one)
        ngx.thread.wait(other)
        local n = 0
        for key in saved:pairs() do
          assert(tonumber(key:sub(2)) % 100 ~= 0)
          n = n + 1
        end
        assert(n == saved:count())
        return origin .. " " .. n .. " " .. saved:get "k8" .. " " .. tostring(saved:get "k700")
      ]])
    end)

    it("and lets go of the table when its request is cut off", function()
      start()
      assert.equal("1", run [[
        local slow
        state = assert(store:table("t", { decode = function(value)
          if value == "slow" and slow then ngx.sleep(1000) end
          return value
        end }))
        slow = true
        topic:append("a", "slow")
        local cut = ngx.thread.spawn(state.update, state)
        ngx.thread.kill(cut)
        slow, cut = false, nil
        ngx.sleep(0.001)
        collectgarbage()
        collectgarbage()
        return state:update()
      ]])
    end)
  end)
end)

-- resty.sediment in a real nginx: appends of four workers, what reloads, upgrades and deaths do to them, and what each phase allows.
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"
local server = require "nginx.server"
local ledger = require "nginx.ledger"

if server.missing then
  describe("resty.sediment", function() it("runs in nginx", function() pending(server.missing) end) end)
  return
end

describe("resty.sediment", function()
  local nginx, path, store, topic

  before_each(function()
    path = support.path()
    store = support.open(path)
    topic = store:topic("t", { segment_bytes = 20000 })
  end)
  after_each(function()
    if nginx then nginx:stop() end
    nginx = nil
    support.cleanup()
  end)

  local OPEN = [[
    store = assert(require "resty.sediment".open("%s"))
    topic = assert(store:topic "t")
  ]]

  local APPEND = [[
    location /append {
      content_by_lua_block {
        local offset, message, code = topic:append(ngx.var.arg_key, ngx.worker.pid(), { sync = ngx.var.arg_sync == "true" })
        if not offset then
          ngx.status = code == "disk_full" and 507 or 500
          return ngx.say(message)
        end
        ngx.say(ngx.var.arg_key, " ", offset)
      }
    }
  ]]

  local function start(conf)
    conf = conf or {}
    conf.init_worker = OPEN:format(path) .. (conf.init_worker or "")
    conf.server = APPEND .. (conf.server or "")
    nginx = server.start(conf)
    return nginx
  end

  -- No request failed, and the log has what was acknowledged, no more and no less.
  local function is_exact(said, count, failures)
    assert.equal("", failures)
    local acknowledged, n = ledger.of(said)
    assert.equal(count, n)
    assert.equal(count, ledger.check(topic, acknowledged))
    assert.equal("", nginx:errors())
  end

  -- Waits until somebody appends behind `offset`.
  local function waits(offset) return assert(topic:wait(offset, 30000)) end

  -- Thirty-two requests at a time, until the function that it returns is called.
  local function traffic(durably) return nginx:load(("/append?sync=%s&key="):format(durably and "true" or ""), 32) end

  describe("takes the appends of four workers", function()
    it("each once", function()
      start()
      local finish = traffic()
      waits(3000)
      is_exact(finish())
      local workers = {}
      for _, _, pid in topic:records() do workers[pid] = true end
      for _, pid in ipairs(nginx.pids) do assert.is_true(workers[pid], pid .. " has appended nothing") end
    end)

    for name, durably in pairs { ["as they come"] = false, durably = true } do
      it("while the configuration is read again ten times, " .. name, function()
        start()
        local finish = traffic(durably)
        for _ = 1, 10 do
          waits(topic:latest() + 200)
          nginx:reload()
        end
        is_exact(finish())
      end)

      it("while workers are killed, " .. name, function()
        start()
        local finish = traffic(durably)
        for i = 1, 10 do
          waits(topic:latest() + 200)
          nginx:kill_worker(i % 4 + 1)
        end
        local said, count, failures = finish()
        local acknowledged, n = ledger.of(said)
        assert.equal(count, n + select(2, failures:gsub("curl: %(%d+%)", "")))
        local there = ledger.check(topic, acknowledged)
        assert.is_true(there >= n and there <= count)
      end)
    end

    it("while another binary takes over", function()
      start()
      local finish, old = traffic(), nginx:master()
      waits(500)
      nginx:upgrade()
      assert.not_equal(old, nginx:master())
      waits(topic:latest() + 500)
      is_exact(finish())
    end)
  end)

  it("shows every worker what the others append", function()
    local said = store:topic("said", {})
    start { init_worker = [[
      ngx.timer.at(0, function()
        said = store:topic "said"
        said:append("ready", ngx.worker.id())
        for _, _, value in topic:records { from = 0, follow = true } do said:append(value, ngx.worker.id()) end
      end)
    ]] }
    for n = 0, 20 do
      topic:append("k", n)
      local heard = {}
      for offset, key, worker in said:records { follow = true, timeout_ms = 30000 } do
        if key == tostring(n) then heard[#heard + 1] = worker end
        if #heard == 4 then break end
        assert(offset < 1000)
      end
      table.sort(heard)
      assert.same({ "0", "1", "2", "3" }, heard)
    end
  end)

  it("loses nothing when old workers are cut off", function()
    start {
      main = "worker_shutdown_timeout 50ms;",
      server = [[
        location /stay { content_by_lua_block {
          topic:append("staying", ngx.worker.pid())
          repeat ngx.sleep(0.001) until false
        } }
      ]],
    }
    local p = nginx:begin "/stay"
    waits(0)
    nginx:reload()
    assert.matches("curl: %(52%) Empty reply", p:read "*a")
    p:close()
    assert.equal("k 1\n", nginx:get "/append?key=k")
    assert.equal(2, ledger.check(topic, { staying = 0, k = 1 }))
  end)

  it("shares its store with the plain module in a thread of nginx's", function()
    start {
      main = "thread_pool sediment threads=1;",
      server = [[
        location /compact { content_by_lua_block {
          ngx.say(select(2, ngx.run_worker_thread("sediment", "nginx.compact_now", "run", "]] .. path .. [[", "t")))
        } }
      ]],
    }
    topic:alter { cleanup_policy = "compact" }
    for _ = 1, 3 do nginx:get "/append?key=k" end
    assert.equal("1\n", nginx:get "/compact")
    assert.equal("k 3\n", nginx:get "/append?key=k")
  end)

  it("does what the synopsis of the documentation shows", function()
    local conf = disk.read(scripts.root .. "/docs/openresty.md"):match "## Synopsis.-```nginx(.-)```"
    local init_worker, http = conf:match "init_worker_by_lua_block {\n(.-)\n  }\n(.*)\n}\n$"
    nginx = server.start {
      init_worker = init_worker:gsub("/var/lib/app/log", path),
      http = http:gsub("listen 8080", "listen unix:%%(folder)/8080"),
    }
    nginx.socket = nginx.folder .. "/8080"
    assert.equal("hello\n", nginx:get "/")
    assert.equal("0\n", nginx:get("/orders?id=a", "-d text"))
    assert.equal("a=text", support.words(store:topic("orders"):records()))
    local requests = store:topic "requests"
    assert(requests:wait(0, 30000))                        -- a request is logged behind its answer
    assert.equal("unix:=GET / HTTP/1.1", support.words(requests:records()))
    local p, finish = nginx:begin "/tail", nginx:load("/?", 2)
    assert.matches("^%d+ unix: GET /%?%d+ HTTP/1.1$", p:read "*l")
    finish()
    nginx:stop()
    p:close()
  end)

  it("refuses a reload with Lua files of another version", function()
    local folder = support.foreign()
    disk.copy(scripts.root .. "/lua", folder .. "lua")
    local lua = 'lua_package_path "%slua/?.lua;%slua/?/init.lua;;"; lua_package_cpath "%s/build/luajit/?.so;;";'
    start { lua = lua:format(folder, folder, scripts.root), http = 'init_by_lua_block { require "resty.sediment" }' }
    local file = folder .. "lua/sediment/init.lua"
    disk.write(file, (disk.read(file):gsub('VERSION = "[%d.]+"', 'VERSION = "9.9.9"', 1)))
    nginx:signal "HUP"
    local command = "timeout 20 sh -c 'until grep -q \"they come from different installations\" \"%s/error.log\"; do sleep 0.01; done'"
    assert.equal(0, disk.run(command:format(nginx.folder)))
    assert.equal("k 0\n", nginx:get "/append?key=k")
  end)

  it("opens in the workers what init_by_lua was given, and nothing in the master", function()
    nginx = server.start {
      http = ([[init_by_lua_block {
        store = require "resty.sediment".open("%s")
        topic = store:topic("t", { retention_ms = -1 })
        made = select(2, pcall(topic.latest, topic))
      }]]):format(path),
      server = APPEND .. [[ location /made { content_by_lua_block { ngx.say(made) } } ]],
    }
    assert.equal("k 0\n", nginx:get "/append?key=k")
    assert.equal("-1", ("%d"):format(topic:config()["retention.ms"]))
    assert.matches("latest: not in init_by_lua%*: a store is opened in each worker", nginx:get "/made")
    local held = scripts.shell("ls -l /proc/" .. nginx:master() .. "/fd /proc/" .. nginx:master() .. "/map_files 2>&1")
    assert.is_nil(held:find(path, 1, true), held)
  end)

  it("answers disk_full, and goes on when there is room", function()
    local folder = support.foreign() .. "small"
    if disk.run("mkdir '" .. folder .. "' && mount -t tmpfs -o size=3m tmpfs '" .. folder .. "' 2> /dev/null") ~= 0 then
      return pending "needs the right to mount"
    end
    finally(function() disk.run("umount -l '" .. folder .. "'") end)
    path = folder .. "/store"
    local full = support.open(path)
    topic = full:topic("t", {})
    start { server = [[
      location /fill { content_by_lua_block {
        local offset, message, code
        for _, value in ipairs { ("x"):rep(10000), "" } do         -- to the last byte of the page in memory
          repeat offset, message, code = topic:append(topic:latest(), value) until not offset
        end
        ngx.say(code)
      } }
    ]] }
    assert.equal("k 0\n", nginx:get "/append?key=k")
    assert.equal("disk_full\n", nginx:get "/fill")
    assert.equal(507, nginx:status "/append?key=none")
    local last = topic:latest()
    assert(disk.run("mount -o remount,size=8m '" .. folder .. "'") == 0)
    local offset = tonumber(nginx:get("/append?key=more"):match "^more (%d+)")
    assert.is_true(offset >= last)
    assert.is_true(ledger.check(topic, { k = 0, more = offset }) > 100)
    nginx:stop()
  end)

  it("refuses what the plain module refuses, in the same words, at the caller's line", function()
    start { server = [[
      location /run { content_by_lua_block {
        ngx.req.read_body()
        local f = assert(loadstring("return function(sediment, store, topic) " .. ngx.req.get_body_data() .. " end", "=here"))()
        local done, message = pcall(f, require "resty.sediment", store, topic)
        ngx.say((tostring(message)))
      } }
    ]] }
    local sediment = require "sediment"
    for line in ([[
      sediment.open()
      sediment.open("x", { bad = 1 })
      store:topic()
      store:topic("t", { bad = 1 })
      store:table()
      store:table("t", 1)
      store:table("t", { decode = 1 })
      store:table("t", { bad = 1 })
      store:table("t", { index = 1 })
      store:table("t"):put()
      store:table("t"):put("k")
      store:table("t"):put("k", {})
      store:table("t"):put("k", "v", { sync = 1 })
      store:table("t"):put("k", "v", { bad = 1 })
      store:table("t"):delete({})
      store:table("t"):delete("k", 1)
      store:table("t"):wait(-1)
      store:table("t"):wait("x")
      store:table("t"):lookup("none", 1)
      topic:append({}, 1)
      topic:append("k", "v", { sync = 1 })
      topic:append({}, "v", { sync = true })
      topic:append_batch({ { bad = 1 } }, { sync = true })
      topic:wait("x")
      topic:wait(0, -1)
      topic:wait(0, 1.5)
      topic:wait(0, 1, "x")
      topic:latest("x")
      topic:flush("x")
      topic:delete_records("x")
      topic:records(1)
      topic:records { follow = 1 }
      topic:records { follow = true, from = {} }
      topic:records { follow = true, timeout_ms = -1 }
      topic:records { follow = true, timeout_ms = 0.5 }
      topic:records { timeout_ms = 1 }
      for _ in topic:records { from = 99, follow = true } do break end]]):gmatch "[^\n]+" do
      local load_text = rawget(_G, "loadstring") or load
      local f = assert(load_text("return function(sediment, store, topic) " .. line .. " end", "=here"))()
      local message = tostring(support.raised(f, sediment, store, topic)):gsub("got no value", "got nil")
      assert.equal(message .. "\n", nginx:get("/run", "--data-binary '" .. line .. "'"))
    end
  end)

  it("raises for a loop over a topic that is missing what the plain module raises in one", function()
    start {
      http = ('init_by_lua_block { missing = require "resty.sediment".open("%s"):topic "none" }'):format(path),
      server = [[
        location /run { content_by_lua_block {
          local _, err = pcall(missing.records, missing)
          ngx.say(err.code, " ", "so: " .. err == "so: " .. tostring(err))
        } }
      ]],
    }
    assert.equal("unknown_topic true\n", nginx:get "/run")
  end)

  describe("in every phase", function()
    -- The table of docs/openresty.md: what a call does, by call and by the title of a column.
    local function documented()
      local cells, titles = {}, nil
      for line in disk.read(scripts.root .. "/docs/openresty.md"):match("## Phase by call\n(.-)\n## "):gmatch "\n(|[^\n]+)" do
        local row = {}
        for cell in line:gmatch "|([^|]+)" do row[#row + 1] = cell:match "^%s*(.-)%s*$" end
        if not titles then titles = row end
        for call in row[1]:gmatch "`([^`]+)`" do
          for i = 2, #row do
            for phase in titles[i]:gmatch "`([%w_]+)`" do cells[phase .. " " .. call] = row[i] end
          end
        end
      end
      return cells
    end

    local function outcomes()
      nginx = server.start {
        workers = 1,
        http = ([[
          init_by_lua_block { phases = require "nginx.phases"; phases.begin "%s"; phases.try() }
          exit_worker_by_lua_block { phases.try() phases.write "%%(folder)/outcomes" }
          upstream none { server 0.0.0.1; balancer_by_lua_block { phases.try() } }
        ]]):format(path),
        init_worker = "phases.try() ngx.timer.at(0, phases.try)",
        server = [[
          location /try {
            set_by_lua_block $ignored { phases.try() }
            rewrite_by_lua_block { phases.try() }
            access_by_lua_block { phases.try() }
            content_by_lua_block { phases.try() ngx.say "tried" }
            header_filter_by_lua_block { phases.try() }
            body_filter_by_lua_block { phases.try() }
            log_by_lua_block { phases.try() }
          }
          location /balance { proxy_pass http://none; }
        ]],
      }
      assert.equal("tried\n", nginx:get "/try")
      nginx:status "/balance"
      nginx:stop()
      local found = {}
      for phase, call, message in disk.read(nginx.folder .. "/outcomes"):gmatch "([^\t\n]+)\t([^\t]+)\t([^\n]*)\n" do
        found[phase .. " " .. call] = message
      end
      return found
    end

    it("has every method of the plain module", function()
      local said = documented()
      for _, object in ipairs { store, topic } do
        for name in pairs(getmetatable(object).__index) do assert(said["log " .. name], name .. " is not in docs/openresty.md") end
      end
    end)

    it("does what the documentation says", function()
      local found, said, count = outcomes(), documented(), 0
      for where, message in pairs(found) do
        local cell = assert(said[where], where .. " is not in docs/openresty.md")
        assert.equal(cell:find "^raises" ~= nil, message ~= "", where .. ": " .. message)
        if message ~= "" then assert.matches(": not in ", message) end
        count = count + 1
      end
      assert.equal(12 * 65, count)
      for where in pairs(said) do
        assert(found[where] or where:find "^ssl", where .. " was not tried")
      end
    end)
  end)
end)

-- Consumers in a real nginx: a member in each worker, which others take over from when it is reloaded or killed.
local support = require "support"
local server = require "nginx.server"

if server.missing then
  describe("resty.sediment", function() it("consumes in nginx", function() pending(server.missing) end) end)
  return
end

describe("a consumer in each worker", function()
  local nginx, topic, handled

  before_each(function()
    local path = support.path()
    local store = support.open(path)
    topic, handled = store:topic("t", { partitions = 4 }), store:topic("handled", {})
    nginx = server.start {
      workers = 2,
      init_worker = ([[
        local store = assert(require "resty.sediment".open("%s"))
        local handled = assert(store:topic "handled")
        consumer = assert(store:consumer { group = "g", topics = { "t" } })
        assert(ngx.timer.at(0, function()
          while not ngx.worker.exiting() do
            for _, record in ipairs(assert(consumer:poll { timeout_ms = 60000 })) do
              assert(handled:append(record.partition .. ":" .. record.offset, ngx.worker.pid()))
            end
            local done, message, code = consumer:commit(nil, { sync = true })
            assert(done or code == "fenced", message)
          end
          consumer:close()
        end))
      ]]):format(path),
      server = [[
        location /alive { content_by_lua_block { ngx.say "alive" } }
        location /assignment {
          content_by_lua_block { ngx.say(ngx.worker.pid(), " ", table.concat(consumer:assignment().t or {}, " ")) }
        }
      ]],
    }
  end)
  after_each(function()
    nginx:stop()
    support.cleanup()
  end)

  -- Appends so many, and waits until each has been handled; who did it, as a set of process ids.
  local function handle(count)
    local open, from, pids = {}, handled:latest(), {}
    for i = 1, count do
      local offset, p = topic:append("k", "v", { partition = i % 4 })
      open[p .. ":" .. offset] = true
    end
    for _, place, pid in handled:records { from = from, follow = true, timeout_ms = 60000 } do
      open[place], pids[pid] = nil, true
      if not next(open) then return pids end
    end
    error "some were not handled"
  end

  local function count(set)
    local n = 0
    for _ in pairs(set) do n = n + 1 end
    return n
  end

  it("shares the work, and lets requests in while it waits", function()
    assert.equal(2, count(handle(400)))
    assert.equal("alive\n", nginx:get "/alive")
    assert.equal("", nginx:errors())
  end)

  it("is taken over from when its worker is killed", function()
    handle(40)
    for _ = 1, 3 do
      nginx:kill_worker(1)
      handle(40)
    end
    assert.equal(2, count(handle(400)))
  end)

  it("hands over at a reload", function()
    for _ = 1, 3 do
      local before = handle(40)
      nginx:reload()
      local after = handle(400)
      assert.truthy(next(before) and next(after))
    end
    assert.equal("", nginx:errors())
  end)
end)

describe("what init_by_lua* asked for", function()
  local nginx

  after_each(function()
    nginx:stop()
    support.cleanup()
  end)

  it("is there for consumers and tables of the workers", function()
    nginx = server.start {
      workers = 1,
      http = ([[
        init_by_lua_block {
          store = require "resty.sediment".open "%s"
          store:topic("t", {})
          store:topic("u", {})
        }
      ]]):format(support.path()),
      init_worker = [[
        consumer = assert(store:consumer { topics = { "t" } })
        state = assert(store:table "u")
      ]],
      server = "location / { content_by_lua_block { ngx.say(#consumer:poll(), ' ', state:count()) } }",
    }
    assert.equal("0 0\n", nginx:get "/")
  end)
end)

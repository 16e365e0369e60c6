-- The servers in examples/nginx, started as a newcomer starts them.
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"
local server = require "nginx.server"

if server.missing then
  describe("an example for nginx", function() it("runs", function() pending(server.missing) end) end)
  return
end

describe("an example for nginx", function()
  local folder, socket, running, pipes

  before_each(function()
    folder = support.foreign() .. "example"
    socket, pipes = folder .. "/socket", {}
  end)

  local function signal(name, pid) assert(disk.run(("kill -%s %s"):format(name, pid or "$(cat '" .. folder .. "/nginx.pid')")) == 0) end

  -- In order; the pid file goes when the last worker has gone.
  local function stop()
    signal "QUIT"
    assert.equal(0, disk.run("timeout 20 sh -c 'while [ -e \"" .. folder .. "/nginx.pid\" ]; do sleep 0.01; done'"))
    running = false
  end

  after_each(function()
    if running then stop() end
    for _, p in ipairs(pipes) do p:close() end
    support.cleanup()
  end)

  local function start(name)
    local said = scripts.shell(("sh '%s/examples/nginx/start' %s '%s' 'unix:%s' 2>&1"):format(scripts.root, name, folder, socket))
    assert.matches("to stop it: kill %-QUIT", said)
    running = true
    return said
  end

  local function curl(options, url)
    return ("curl -s -S --no-progress-meter --max-time 60 --unix-socket '%s' %s 'http://nginx%s'"):format(socket, options, url)
  end

  local function ask(options, url) return (scripts.shell(curl(options, url) .. " 2>&1"):gsub("\n$", "")) end

  local function begin(options, url)
    local p = assert(io.popen(curl(options, url) .. " 2> /dev/null"))
    pipes[#pipes + 1] = p
    return p
  end

  local function no_errors()
    local log = disk.read(folder .. "/error.log")
    assert.is_nil(log:find "%[error%]" or log:find "%[alert%]", log)
  end

  it("says how to ask it, and runs what it says", function()
    local said = start "access_log"
    local command = said:match "curl [^\n]*/hello"
    assert.matches("^hello from worker %d\n$", scripts.shell(command .. " 2> /dev/null"))
  end)

  it("access_log shows requests as they come, and over a reload", function()
    start "access_log"
    local p = begin("-N", "/tail")
    assert.equal(": here", p:read "*l")
    ask("", "/hello")
    assert.equal("", p:read "*l")
    assert.equal("id: 0", p:read "*l")
    assert.matches("^data: unix: 200 GET /hello 0%.%d+$", p:read "*l")
    signal "HUP"
    assert.equal("\n", p:read "*a")                       -- its worker has ended
    ask("", "/while-away")
    p = begin("-N -H 'Last-Event-ID: 0'", "/tail")
    local seen = {}
    repeat
      local line = assert(p:read "*l")
      seen[#seen + 1] = line:match "GET (%S+)"
    until #seen == 2
    assert.same({ "/tail", "/while-away" }, seen)
    no_errors()
  end)

  it("feature_flags shows every worker the same, also after a restart", function()
    local function checkouts()
      local counts = {}
      for which in ask("-Z", "/?[1-100]"):gmatch "the (%w+) checkout" do counts[which] = (counts[which] or 0) + 1 end
      return counts
    end
    start "feature_flags"
    assert.same({ old = 100 }, checkouts())
    assert.equal("204", ask("-X PUT -d on -w '%{http_code}'", "/flags/new-checkout"))
    assert.same({ new = 100 }, checkouts())
    ask("-X PUT -d 7", "/flags/limit")
    stop()
    start "feature_flags"
    assert.same({ new = 100 }, checkouts())
    assert.equal("limit = 7\nnew-checkout = on", ask("", "/flags"))
    ask("-X DELETE", "/flags/new-checkout")
    assert.same({ old = 100 }, checkouts())
    assert.equal("404", ask("-o /dev/null -w '%{http_code}'", "/flags/new-checkout"))
    disk.write(folder .. "/large", ("x"):rep(40000))
    assert.equal("204", ask("-o /dev/null -w '%{http_code}' -X PUT --data-binary @" .. folder .. "/large", "/flags/large"))
    assert.equal(40000, #ask("", "/flags/large"))
    assert.equal("405", ask("-X PATCH -o /dev/null -w '%{http_code}'", "/flags/limit"))
    no_errors()
  end)

  it("rate_limiter counts over all workers and over a restart", function()
    start "rate_limiter"
    local function statuses(n, client)
      local count = {}
      for status in ask("-Z --parallel-immediate -o /dev/null -w '%{http_code} '", ("/?client=%s&[1-%d]"):format(client, n)):gmatch "%d+" do
        count[status] = (count[status] or 0) + 1
      end
      return count["200"] or 0, count["429"] or 0
    end
    local served, refused = statuses(60, "ann")
    assert.equal(60, served + refused)
    assert.truthy(served >= 20 and served <= 22, served)      -- one more every six seconds
    assert.same({ 5, 0 }, { statuses(5, "bob") })
    assert.matches("Retry%-After: %d", ask("-i", "/?client=ann&[1-3]"))
    stop()
    start "rate_limiter"
    assert.matches("ann may send [012] more\nbob may send 1[567] more", ask("", "/clients"))
    assert.truthy(statuses(10, "ann") <= 3)
    no_errors()
  end)

  it("work_queue does every job that it accepted, whoever dies", function()
    local MD5 = scripts.shell "printf text | md5sum":match "%x+"
    start "work_queue"
    assert.equal(120, select(2, ask("-Z -d text", "/jobs/job[1-120]"):gsub("accepted", "")))
    local results = assert(support.open(folder .. "/store"):topic "results")
    local victims = disk.read(folder .. "/error.log"):gmatch "start worker process (%d+)"
    local finished, count = {}, 0
    for _, name, result in results:records { follow = true, timeout_ms = 30000 } do
      assert.equal("done: " .. MD5, result)
      if not finished[name] then finished[name], count = true, count + 1 end
      if count == 20 or count == 40 then signal("KILL", victims()) end
      if count == 60 then signal "HUP" end
      if count == 120 then break end
    end
    assert.equal(120, count)
    disk.write(folder .. "/large", ("x"):rep(40000))
    local before = results:latest()
    ask("--data-binary @" .. folder .. "/large", "/jobs/large")
    assert(results:wait(before, 30000))
    assert.equal("done: " .. scripts.shell("md5sum < " .. folder .. "/large"):match "%x+", ask("", "/jobs/large"))
    ask("-d fail", "/jobs/bad")
    local offset = results:latest()
    while not ask("", "/jobs/bad"):find "^failed" do offset = assert(results:wait(offset, 30000)) end
    assert.equal("failed: it cannot be done", ask("", "/jobs/bad"))
    assert.equal("done: " .. MD5, ask("", "/jobs/job7"))
  end)
end)

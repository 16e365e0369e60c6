-- sediment run: what ends it, signals and deaths, and several runs of a script beside each other.
local of = require "commands"
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local write, run, fill, committed, lines_until = of.write, of.run, of.fill, of.committed, of.lines_until

describe("sediment run", function()
  local directory, store

  before_each(function() directory, store = of.begin() end)
  after_each(support.cleanup)

  for name, status in pairs { INT = 130, TERM = 143, HUP = 129 } do
    it("follows until a signal comes, and then ends in order: " .. name, function()
      local topic = fill(2)
      write(of.FOLLOWER)
      local pipe, pid = scripts.start_sediment(directory, "run", "s.lua", "--store", "store", "--follow", "-q")
      assert.equal("begun 1 2", lines_until(pipe, "2"))
      topic:append("k", "more")
      assert.equal("more", lines_until(pipe, "more"))
      assert.equal(0, disk.run(("kill -%s %d"):format(name, pid)))
      assert.equal("done status " .. status, lines_until(pipe))
      pipe:close()
      assert.equal(3, committed())
      assert.equal(0, store:group("s").members)
    end)
  end

  it("commits what was handled when a signal comes in the middle", function()
    fill(10)
    write [[
      io.stdout:setvbuf "line"
      local n = 0
      return { topics = { "t" }, on_record = function(r)
        n = n + 1
        if n == 4 then os.execute "kill -TERM $PPID" end
      end, on_done = function() print(n) end }]]
    local said, _, status = run()
    assert.same({ "4\n", 143, 4 }, { said, status, committed() })
  end)

  -- Whether a process has a handler for SIGINT.
  local function catches(pid)
    local mask = disk.read(("/proc/%d/status"):format(pid)):match "SigCgt:%s*%x*(%x)\n"
    return math.floor(tonumber(mask, 16) / 2) % 2 == 1
  end

  it("ends at once at a second signal", function()
    fill(1)
    write [[io.stdout:setvbuf "no" return { topics = { "t" }, on_record = function() print "in" while true do end end }]]
    local pipe, pid = scripts.start_sediment(directory, "run", "s.lua", "--store", "store", "-q")
    assert.equal("in", pipe:read "*l")
    assert.is_true(catches(pid))
    disk.run("kill -INT " .. pid)
    while catches(pid) do end                                     -- the first has arrived
    disk.run("kill -INT " .. pid)
    assert.equal("status 130", pipe:read "*l")
    pipe:close()
    assert.is_nil(committed())
  end)

  it("ends without a word when it is interrupted before it has begun", function()
    write [[io.stdout:setvbuf "no" print "loading" while true do end]]
    local pipe, pid = scripts.start_sediment(directory, "run", "s.lua", "--store", "store")
    assert.equal("loading", pipe:read "*l")
    disk.run("kill -INT " .. pid)
    assert.equal("status 130\n", pipe:read "*a")
    pipe:close()
    for _, name in ipairs { "sediment", "argparse", "sediment.command.run" } do
      disk.write(directory .. "/init.lua", ([[
        if jit then jit.off() end                                     -- what is compiled hears of no signal
        package.preload["%s"] = function()
          io.popen "kill -INT $PPID":close()
          for i = 1, 1e8 do end
          print "goes on"
        end
      ]]):format(name))
      assert.equal("status 130\n", scripts.shell("exec 2>&1; (LUA_INIT=@init.lua; export LUA_INIT; " ..
        scripts.sediment_command(directory, "topics"):gsub("LUA_INIT LUA_INIT_5_4", "") .. ") < /dev/null; echo status $?"), name)
    end
  end)

  it("leaves nothing out when it is killed again and again", function()
    local total = 300
    local topic = store:topic("t", { partitions = 3 })
    for i = 1, total do topic:append("k" .. i, tostring(i)) end
    write [[
      local ledger, dies = io.open("ledger", "a"), tonumber((...))
      local n = 0
      return { topics = { "t" }, commit_every = 10, on_record = function(r)
        ledger:write(r.value, "\n")
        n = n + 1
        if n == dies then
          ledger:flush()
          os.execute "kill -9 $PPID"
        end
      end, on_done = function() ledger:close() end }]]
    local status
    for round = 1, 100 do
      status = select(3, run(tostring(11 + round * 7 % 30)))
      if status == 0 then break end
      assert.equal(137, status)
    end
    assert.equal(0, status)
    local seen, count = {}, 0
    for line in disk.read(directory .. "/ledger"):gmatch "[^\n]+" do
      if not seen[line] then seen[line], count = true, count + 1 end
    end
    assert.equal(total, count)
    assert.equal(0, store:consumer({ group = "s", topics = { "t" } }):lag().total)
  end)

  it("shares the partitions with another run of the script", function()
    local topic = store:topic("t", { partitions = 2 })
    write [[
      local name = ...
      io.stdout:setvbuf "line"
      return { topics = { "t" }, init = function() print "begun" end, on_record = function(r)
        local ledger = io.open("ledger", "a")
        ledger:write(name, r.partition, "\n")
        ledger:close()
      end }]]
    local pipes, pids = {}, {}
    for i, name in ipairs { "a", "b" } do
      pipes[i], pids[i] = scripts.start_sediment(directory, "run", "s.lua", name, "--store", "store", "--follow", "-q")
      assert.equal("begun", pipes[i]:read "*l")
    end
    assert.equal(2, store:group("s").members)
    -- One of the two may just have looked who is there when the first records come.
    local said, commits
    repeat
      for p = 0, 1 do topic:append("k", "v", { partition = p }) end
      for p = 0, 1 do
        while (committed("s", p) or 0) < topic:latest(p) do
          commits = commits or store:topic "__consumer_offsets"
          if commits then commits:wait(commits:latest(), 50) end
        end
      end
      said = disk.read(directory .. "/ledger")
    until said:find "a" and said:find "b"
    assert.is_truthy(said:find "a0\n.*b1\n" or said:find "b1\n.*a0\n" or said:find "a1\n.*b0\n" or said:find "b0\n.*a1\n")
    for i = 1, 2 do
      disk.run("kill -INT " .. pids[i])
      assert.equal("status 130", lines_until(pipes[i]))
      pipes[i]:close()
    end
  end)
end)

-- The background work is done by one of the processes that have a store open. When that one closes it, dies or becomes another program, the
-- next one does the work; and a program that is begun by one with an open store has nothing of it.
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"

-- Runs the lines that it is sent. Retention is looked at in every tick, so that it shows who works.
local OTHER = [[
local sediment = require "sediment"
io.stdout:setvbuf "line"
store = assert(sediment.open(arg[1], { options = { log_retention_check_interval_ms = 1, log_initial_task_delay_ms = 0 } }))
topic = assert(store:topic("t", {}))
for line in io.lines() do assert((loadstring or load)(line))() end
]]

local EXEC = [[
  local ffi = require "ffi"
  ffi.cdef "int execv(const char *, char *const *);"
  local words = ffi.new("const char *[4]", "sh", "-c", "echo replaced; exec cat '%s'")
  ffi.C.execv("/bin/sh", ffi.cast("char *const *", words))
]]

local WAITS = 1000                        -- hundredths of a second, at most

local function eventually(what, done)
  for _ = 1, WAITS do
    if done() then return end
    disk.run "sleep 0.01"
  end
  error("never " .. what)
end

describe("a store that several programs use", function()
  local path, gone, others

  before_each(function()
    path, others = support.path(), {}
    gone = path .. ".go"                  -- a FIFO that nobody writes into: who reads it lives until he is killed
    disk.run("mkfifo '" .. gone .. "'")
  end)

  after_each(function()
    for _, other in ipairs(others) do
      if #other.pids > 0 then disk.run("kill -9 " .. table.concat(other.pids, " ") .. " 2> /dev/null") end
      if other.said then other.said:close() end
      other.lines:close()
    end
    support.cleanup()
  end)

  -- Another process with the store open: `tell` has it run a line, and returns what that prints, one line.
  local function begin()
    local other = { pids = {} }
    others[#others + 1] = other
    local lines = path .. "." .. #others
    disk.run("mkfifo '" .. lines .. "'")
    other.said = assert(io.popen(("echo $$; exec %s '%s' < '%s'"):format(disk.script(path .. ".lua", OTHER), path, lines)))
    other.pids[1] = other.said:read "*l"
    other.lines = assert(io.open(lines, "w"))
    other.lines:setvbuf "line"
    function other.tell(text)
      other.lines:write(text:gsub("\n", " "), "\n")
      return other.said:read "*l"
    end
    assert.equal("open", other.tell "print 'open'")
    return other
  end

  -- Has it exit without closing the store.
  local function exit(other)
    other.lines:write "os.exit()\n"
    other.said:close()
    other.said = nil
    table.remove(other.pids, 1)
  end

  -- Has a segment deleted by whoever does the background work, and returns when it is gone.
  local function see_retention(store)
    local old = store:topic("old", { retention_ms = "1d" })
    local offset = assert(old:append("k", "v", { timestamp = 1000 }))
    eventually("deleted what is old", function() return old:earliest() == offset + 1 end)
  end

  local function files_of(pid) return scripts.shell(("ls -l /proc/%s/fd && cat /proc/%s/maps"):format(pid, pid)) end

  -- Returns when the thread of a process has looked whether there is work for it: then it lets go of a topic that others have deleted, too.
  local function see_a_look(store, other)
    store:topic("gone", {})
    assert.equal("0", other.tell "print((store:topic('gone'):append('k', 'v'))) collectgarbage()")
    assert.matches("/gone", files_of(other.pids[1]))
    assert(store:delete_topic "gone")
    eventually("looked", function() return not files_of(other.pids[1]):find "/gone" end)
  end

  -- Returns when the process has become the program that reads the FIFO; nothing of the store is open or mapped in it.
  local function has_nothing(pid)
    eventually("began", function() return disk.read("/proc/" .. pid .. "/cmdline"):find "^cat" end)
    local held = files_of(pid)
    assert.is_nil(held:find(path .. "/", 1, true), held)
  end

  -- Nobody else has the store open: a close by the last one leaves the mark.
  local function is_the_last(store)
    assert(store:close())
    assert(disk.exists(path .. "/.kafka_cleanshutdown"), "somebody else seemed to have the store open")
  end

  local ENDS = {
    { "closes it", function(other) assert.equal("closed", other.tell "store:close() print 'closed'") end },
    { "is killed", function(other)
      disk.run("kill -9 " .. other.pids[1])
      assert.is_nil(other.said:read "*l")
    end },
    { "becomes another program", function(other)
      assert.equal("replaced", other.tell(EXEC:format(gone)))
      has_nothing(other.pids[1])
    end, "ffi" },
  }
  for _, ending in ipairs(ENDS) do
    it("has its background work done by the next one when the one that does it " .. ending[1], function()
      if ending[3] and not rawget(_G, "jit") then return pending "needs LuaJIT's ffi" end
      local store = support.open(path)
      local first = begin()
      see_retention(store)                                    -- by the first, the only one
      local second = begin()
      see_a_look(store, second)                               -- in vain
      assert.equal("0", first.tell "print((topic:append('k', 'of the first')))")
      ending[2](first)
      see_retention(store)
      assert.equal("1", second.tell "print((topic:append('k', 'of the second')))")
      assert.equal("k=of the first k=of the second", support.words(store:topic("t"):records()))
      assert.equal("closed", second.tell "store:close() print 'closed'")
      is_the_last(store)
    end)
  end

  local STARTS = {
    { "os.execute", [[ os.execute("sh -c 'echo $$; exec cat %s' &") ]] },
    { "io.popen", [[ child = io.popen("echo $$; exec cat %s") print(child:read "*l") ]] },
  }
  for _, start in ipairs(STARTS) do
    it("is not held open by what one of them has begun with " .. start[1], function()
      local other = begin()
      assert.equal("0", other.tell "print((topic:append('k', 'v')))")
      local child = other.tell(start[2]:format(gone))
      table.insert(other.pids, child)
      has_nothing(child)
      exit(other)
      local store = support.open(path)
      assert.equal("k=v", support.words(store:topic("t"):records()))
      is_the_last(store)
      has_nothing(child)                                      -- which is still there
    end)
  end
end)

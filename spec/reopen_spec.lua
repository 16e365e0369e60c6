-- What is there after closing, after the death of a process, after a torn tail: everything that was acknowledged, in proper batches.
local support = require "support"
local disk = require "disk"

describe("a store opened again", function()
  after_each(support.cleanup)

  it("has everything after close", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { partitions = 2, segment_bytes = 500, cleanup_policy = "compact,delete" })
    local before, segments = {}, {}
    for i = 1, 100 do
      topic:append("k" .. i % 40, "v" .. i, { partition = i % 2, timestamp = support.now + i, headers = { { "n", tostring(i) } } })
    end
    topic:compact { force = true }
    topic:delete_records(3)
    store:close()
    store = support.open(path)
    topic = store:topic "t"
    for p = 0, 1 do before[p], segments[p] = support.collect(topic:records { partition = p }), topic:segments(p) end
    assert.equal(50, topic:latest(0))
    store:close()
    topic = support.open(path):topic "t"
    for p = 0, 1 do
      assert.same(before[p], support.collect(topic:records { partition = p }))
      assert.same(segments[p], topic:segments(p))
    end
    assert.equal(3, topic:earliest(0))
    assert.same({ 50, 0 }, { topic:append("x", "y", { partition = 0 }) })
  end)

  it("has proper batches in its files after close", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 1, 10 do topic:append("k", tostring(i)) end
    store:close()
    local batches = disk.batches(disk.read(path .. "/t-0/" .. disk.log(0)))
    assert.same({ 1, 0, 9 }, { #batches, batches[1].base_offset, batches[1].last_offset })
    assert.equal("0\n1\nt 0 10\n", disk.read(path .. "/recovery-point-offset-checkpoint"))
  end)

  it("numbers on where it ended, also when all was deleted", function()
    local path, n = support.path(), 0
    for round = 1, 10 do
      local store = support.open(path)
      local topic = store:topic("t", { retention_ms = 1000 })
      for _ = 1, round do
        assert.equal(n, (topic:append("k", "v")))
        n = n + 1
      end
      support.now = support.now + 2000
      if round % 3 == 0 then
        topic:retain()
        assert.equal(n, topic:earliest())
      end
      store:close()
    end
  end)

  it("may be open twice in a process", function()
    local path = support.path()
    local one, two = support.open(path), support.open(path)
    local topic = one:topic("t", {})
    topic:append("a", "1")
    two:topic("t"):append("b", "1")
    assert.equal("a=1 b=1", support.words(topic:records()))
    one:close()
    two:topic("t"):append("c", "1")
    assert.equal("a=1 b=1 c=1", support.words(two:topic("t"):records()))
  end)

  it("cuts a torn tail and says how much", function()
    for _, tail in ipairs { "x", ("\0"):rep(500), ("\255"):rep(70), "TORN" } do
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", {})
      topic:append_batch { { key = "a", value = "1" } }
      topic:append_batch { { key = "b", value = "1" } }
      store:close()
      local file = path .. "/t-0/" .. disk.log(0)
      local bytes = disk.read(file)
      if tail == "TORN" then tail = bytes:sub(1, #bytes / 2 - 5) end          -- all but the end of a batch
      disk.write(file, bytes .. tail)
      topic = support.open(path):topic "t"
      assert.equal("a=1 b=1", support.words(topic:records()))
      assert.equal(#bytes, #disk.read(file))
      assert.equal(#tail, topic:stats().partitions[0].truncated_bytes)
      assert.equal(2, (topic:append("c", "1")))
      assert.equal("a=1 b=1 c=1", support.words(topic:records()))
    end
  end)

  it("has cut nothing of a log that was rolled and not appended to", function()
    local function roll_it(store) store:topic("t"):roll() end
    local function maintain(store) store:maintain { now = support.now + 10 ^ 10 } end
    for _, roll in ipairs { roll_it, maintain } do
      local path = support.path()
      local store = support.open(path)
      store:topic("t", { segment_ms = 1000, retention_ms = -1 }):append("k", "v")
      store:close()
      for _ = 1, 3 do
        store = support.open(path)
        assert.equal(0, store:topic("t"):stats().partitions[0].truncated_bytes)
        assert.equal(1, store:topic("t"):latest())
        roll(store)
        store:close()
      end
    end
  end)

  it("reports damage in the middle instead of cutting", function()
    support.damaged()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 1, 5 do topic:append_batch { { key = "k", value = "value " .. i } } end
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    disk.write(file, (bytes:gsub("value 3", "valve 3")))
    topic = support.open(path):topic "t"
    assert.equal(#bytes, #disk.read(file))
    assert.equal(5, topic:latest())
    local seen = {}
    local err = support.raised(function()
      for offset in topic:records() do seen[#seen + 1] = offset end
    end)
    assert.equal("corrupt", err.code)
    assert.same({ 0, 1 }, seen)
    assert.equal("k=value 4 k=value 5", support.words(topic:records { from = 3 }))
    assert.equal(5, (topic:append("k", "value 6")))
    assert.equal("k=value 4 k=value 5 k=value 6", support.words(topic:records { from = 3 }))
  end)

  it("makes lost and damaged indexes anew", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { index_interval_bytes = 0 })
    for i = 0, 99 do
      topic:append_batch { { key = "k", value = tostring(i), timestamp = support.now + i } }
      if i == 49 then topic:roll() end
    end
    store:close()
    local function damage(base, extension, bytes)
      local file = string.format("%s/t-0/%020d.%s", path, base, extension)
      if bytes then disk.write(file, bytes) else os.remove(file) end
    end
    for _, bytes in ipairs { false, "", ("\0"):rep(80), ("\255"):rep(80), ("\1\2\3"):rep(33) } do
      for _, base in ipairs { 0, 50 } do
        damage(base, "index", bytes)
        damage(base, "timeindex", bytes)
      end
      store = support.open(path)
      topic = store:topic "t"
      for i = 0, 99, 7 do
        assert.equal(tostring(i), (select(3, topic:records { from = i }())))
        assert.equal(i, topic:offset_for_time(support.now + i))
      end
      assert.is_nil((topic:offset_for_time(support.now + 100)))
      store:close()
    end
  end)

  it("copes with checkpoints that are no checkpoints", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact,delete" })
    for i = 1, 6 do topic:append("k" .. i % 2, tostring(i)) end
    topic:roll()
    topic:compact { force = true }
    store:close()
    for _, text in ipairs { "", "nonsense", "0\n5\nt 0 3\n", "1\n0\n", "0\n1\nt 0 -7\n" } do
      for _, name in ipairs { "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", "log-start-offset-checkpoint" } do
        disk.write(path .. "/" .. name, text)
      end
      store = support.open(path)
      assert.equal("k1=5 k0=6", support.words(store:topic("t"):records()))
      assert.equal(6, store:topic("t"):latest())
      store:close()
    end
  end)
end)

-- A process that appends until it is killed. It writes each acknowledged offset to its output before it goes on.
local CHILD = [[
local sediment = require "sediment"
local path, mode, count = arg[1], arg[2], tonumber(arg[3])
io.stdout:setvbuf "no"
local now = 1700000000000
local store = assert(sediment.open(path, { background = false, clock = function() return now end }))
local topic = assert(store:topic("t", { segment_bytes = 3000, cleanup_policy = "compact,delete", retention_ms = -1 }))
local n = topic:latest()
for i = 1, count do
  local offset, last
  if mode == "batch" or mode == "mixed" and i % 5 == 0 then
    offset, last = assert(topic:append_batch { { key = "k" .. n, value = "v" .. n }, { key = "k" .. n + 1, value = "v" .. n + 1 } })
  else
    offset = assert(topic:append("k" .. n, "v" .. n, { sync = mode == "sync" and i % 10 == 0 }))
  end
  assert(offset == n)
  n = (last or offset) + 1
  if mode == "mixed" and i % 40 == 0 then assert(topic:roll()) end
  if mode == "mixed" and i % 90 == 0 then assert(topic:compact { force = true }) end
  io.write(string.format("%d\n", n))
end
os.execute "kill -9 $PPID"
]]

describe("a store whose process was killed", function()
  local path, command

  before_each(function()
    path = support.path()
    command = disk.script(path:gsub("store$", "child.lua"), CHILD)
  end)
  after_each(support.cleanup)

  -- Runs a child; kills it from outside after `after` acknowledgements, or lets it kill itself. Returns what it acknowledged.
  local function killed(mode, count, after)
    local pipe = assert(io.popen("echo $$; exec " .. command .. " '" .. path .. "' " .. mode .. " " .. count .. " 2>&1"))
    local pid, acknowledged, lines = assert(tonumber(pipe:read "*l")), 0, 0
    for line in pipe:lines() do
      acknowledged = assert(tonumber(line), line)
      lines = lines + 1
      if lines == after then disk.run("kill -9 " .. pid) end
    end
    pipe:close()
    return acknowledged
  end

  -- The log holds 0 .. n - 1 for some n of at least what was acknowledged, and the files hold proper batches.
  local function check(store, acknowledged)
    local topic = store:topic "t"
    local n = topic:latest()
    assert(n >= acknowledged, n .. " of " .. acknowledged)
    local expected = 0
    for offset, key, value in topic:records() do
      assert(offset == expected and key == "k" .. offset and value == "v" .. offset, "at " .. offset)
      expected = offset + 1
    end
    assert.equal(n, expected)
    assert.equal(0, topic:stats().partitions[0].corrupt_batches)
    local in_files = 0
    for _, s in ipairs(topic:segments()) do
      for _, b in ipairs(disk.batches(disk.read(s.path))) do in_files = in_files + b.count end
    end
    assert(in_files <= n)
    topic:flush()
    in_files = 0
    for _, s in ipairs(topic:segments()) do
      for _, b in ipairs(disk.batches(disk.read(s.path))) do in_files = in_files + b.count end
    end
    assert.equal(n, in_files)
    return n
  end

  for _, mode in ipairs { "single", "batch", "sync", "mixed" } do
    it("by itself has every record it acknowledged: " .. mode, function()
      local acknowledged = killed(mode, 50)
      assert.equal(mode == "batch" and 100 or mode == "mixed" and 60 or 50, acknowledged)
      local store = support.open(path)
      assert.equal(acknowledged, check(store, acknowledged))
      store:close()
      assert.equal(acknowledged, check(support.open(path), acknowledged))
    end)
  end

  it("from outside at any moment has every record it acknowledged", function()
    for round = 1, 8 do
      local acknowledged = killed(round % 2 == 0 and "mixed" or "single", 100000, 20 + round * 37)
      local store = support.open(path)
      check(store, acknowledged)
      if round % 3 == 0 then assert(store:topic("t"):append("k" .. store:topic("t"):latest(), "v" .. store:topic("t"):latest())) end
      store:close()
    end
  end)

  it("leaves the others going", function()
    local store = support.open(path)
    local topic = store:topic("t", { segment_bytes = 3000, cleanup_policy = "compact,delete", retention_ms = -1 })
    for round = 1, 5 do
      local acknowledged = killed("mixed", 100000, 30 + round * 41)
      assert(topic:latest() >= acknowledged)
      for _ = 1, 20 do
        local n = topic:latest()
        assert.equal(n, (topic:append("k" .. n, "v" .. n)))
      end
      check(store, acknowledged)
    end
    store:close()
    check(support.open(path), 100)
  end)

  -- Record i is k<i % 7>, deleted by every fifth; every sixth append is followed by a cleaning, which the death then mostly falls into.
  it("while it cleaned has the last value of every key and nothing deleted", function()
    command = disk.script(path:gsub("store$", "cleaning.lua"), [[
local sediment = require "sediment"
io.stdout:setvbuf "no"
local now = 1700000000000 + tonumber(arg[2])
local store = assert(sediment.open(arg[1], { background = false, clock = function() return now end }))
local topic = assert(store:topic("t", { cleanup_policy = "compact", segment_bytes = 400, delete_retention_ms = 1 }))
for i = topic:latest(), 10 ^ 6 do
  assert(topic:append("k" .. i % 7, i % 5 ~= 0 and tostring(i) or nil) == i)
  io.write(i + 1, "\n")
  if i % 6 == 0 then
    assert(topic:roll())
    assert(topic:compact { force = true, now = now }.corrupt == 0)
  end
end
]])
    for round = 1, 25 do
      local acknowledged = killed(tostring(round), 0, 3 + round * 7 % 23)
      local store = support.open(path)
      local topic = store:topic "t"
      local n, expected, values, last = topic:latest(), {}, {}, -1
      assert(n >= acknowledged)
      for i = 0, n - 1 do expected["k" .. i % 7] = i % 5 ~= 0 and tostring(i) or nil end
      for offset, key, value in topic:records() do
        assert(offset > last)
        last, values[key] = offset, value
      end
      assert.same(expected, values, "round " .. round)
      for _, s in ipairs(topic:segments()) do disk.batches(disk.read(s.path)) end
      for _, part in ipairs { ".log.", ".index.", ".timeindex." } do assert.same({}, disk.list(path .. "/t-0", part)) end
      if round % 4 == 0 then
        topic:roll()
        assert.equal(0, topic:compact({ force = true }).corrupt)
      end
      store:close()
    end
  end)
end)

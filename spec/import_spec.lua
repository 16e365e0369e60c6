-- store:import: a copy of a broker's partition directory becomes a partition, all of it or nothing.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

local KEEP = { retention_ms = -1 }

-- Names, times and bytes of a folder, to see that it was only read.
local function snapshot(dir)
  local list = {}
  local command = "find . -printf '%p %T@ %s %m\\n' | sort && find . -type f -size -200k -exec cat {} +"
  local pipe = assert(io.popen("cd '" .. dir .. "' && " .. command))
  list[1] = pipe:read "*a"
  pipe:close()
  return list[1]
end

local function records(partition, isolation)
  local list = {}
  for offset, key, value, timestamp in partition:records { isolation = isolation } do
    list[#list + 1] = table.concat({ offset, tostring(key), tostring(value), timestamp }, " ")
  end
  return table.concat(list, "\n")
end

-- The names of what a store's folder holds besides its own and the checkpoints.
local function folders(path)
  local list = {}
  for _, name in ipairs(disk.list(path, "-")) do
    if not name:find "checkpoint$" then list[#list + 1] = name end
  end
  return table.concat(list, " ")
end

describe("import", function()
  local path, store
  before_each(function()
    path = support.path()
    store = support.open(path)
  end)
  after_each(support.cleanup)

  local function fails(code, topic, dir, options)
    local before = folders(path)
    local done, message, why = store:import(topic, dir, options)
    assert.equal(nil, done)
    assert.equal(code, why)
    assert.is_string(message)
    assert.equal(before, folders(path))
    return message
  end

  for _, name in ipairs { "transactions", "spanning", "compacted", "broker-consumer-offsets", "broker-appendtime" } do
    it("gives what Kafka's directory gives: " .. name, function()
      local dir, folder = support.kafka_directory(name)
      local before = snapshot(folder)
      local bare = assert(sediment.open_partition(dir))
      local finish, message, code = store:import("t", dir)
      if code == "unsupported" then return assert.truthy(message:find(dir, 1, true)) end
      assert.equal(bare:latest(), finish)
      local topic = assert(store:topic "t")
      assert.same({ bare:earliest(), bare:latest() }, { topic:earliest(), topic:latest() })
      for _, isolation in ipairs { "committed", "uncommitted" } do assert.equal(records(bare, isolation), records(topic, isolation)) end
      local expected = bare:segments()
      for i, s in ipairs(topic:segments()) do
        assert.same({ expected[i].base_offset, expected[i].size, expected[i].max_timestamp }, { s.base_offset, s.size, s.max_timestamp })
        assert.equal(disk.read(expected[i].path), disk.read(s.path))
      end
      bare:close()
      assert.equal(before, snapshot(folder))
    end)
  end

  it("goes on as a partition like any other", function()
    local dir = support.kafka_directory "spanning"
    assert.equal(10, store:import("t", dir))
    local topic = assert(store:topic("t", KEEP))
    assert.equal(10, (topic:append("k", "v")))
    topic:roll()
    assert.equal(11, (topic:append("k", "w")))
    store:close()
    topic = support.open(path):topic "t"
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1 k=v k=w", support.words(topic:records()))
    assert.same({ 0, 12, 0 }, { topic:earliest(), topic:latest(), topic:stats().partitions[0].truncated_bytes })
    assert.same({ segments = 4, bytes = topic:segments()[1].size }, { segments = #topic:segments(), bytes = 209 })
  end)

  it("appends in the epoch of the last leader", function()
    assert(store:import("t", (support.kafka_directory "spanning")))
    local topic = store:topic("t", KEEP)
    topic:append("k", "staged")
    topic:flush()
    topic:append_batch { { key = "k", value = "batch" } }
    local bytes = disk.read(topic:segments()[3].path)
    for _, b in ipairs(disk.batches(bytes)) do assert.equal(3, bytes:byte(b.position + 16)) end
    assert.equal("0\n2\n0 0\n3 6\n", disk.read(path .. "/t-0/leader-epoch-checkpoint"))
  end)

  it("makes the epochs out of the batches when their file is missing", function()
    local dir = support.kafka_directory "spanning"
    os.remove(dir .. "/leader-epoch-checkpoint")
    assert(store:import("t", dir))
    assert.equal("0\n2\n0 0\n3 6\n", disk.read(path .. "/t-0/leader-epoch-checkpoint"))
  end)

  it("takes over the checkpoints beside the directory", function()
    local dir, folder = support.kafka_directory "spanning"
    disk.write(folder .. "log-start-offset-checkpoint", "0\n1\nspanning 0 6\n")
    disk.write(folder .. "cleaner-offset-checkpoint", "0\n1\nspanning 0 9\n")
    assert(store:import("t", dir))
    local topic = store:topic("t", KEEP)
    assert.equal(6, topic:earliest())
    assert.equal(9, topic:stats().partitions[0].clean_offset)
    store:close()
    topic = support.open(path):topic "t"
    assert.equal("c=1 c- d=1 tail=1", support.words(topic:records()))
    assert.same({ 6, 9 }, { topic:earliest(), topic:stats().partitions[0].clean_offset })
  end)

  it("keeps the log start also when the store's process dies at once", function()
    local dir, folder = support.kafka_directory "spanning"
    disk.write(folder .. "log-start-offset-checkpoint", "0\n1\nspanning 0 6\n")
    assert(store:import("t", dir))
    disk.copy(path, path .. ".died")
    assert.equal(6, support.open(path .. ".died"):topic("t"):earliest())
  end)

  it("refuses a log start behind the end", function()
    local dir, folder = support.kafka_directory "spanning"
    disk.write(folder .. "log-start-offset-checkpoint", "0\n1\nspanning 0 11\n")
    assert.truthy(fails("corrupt", "t", dir):find("11", 1, true))
  end)

  it("creates the topic, grows it, or fills an empty partition", function()
    local dir = support.kafka_directory "spanning"
    assert.equal(10, store:import("made", dir, { partition = 1 }))
    assert.equal(0, store:topic("made"):latest(0))
    assert.equal(10, store:topic("made"):latest(1))
    local topic = store:topic("grown", KEEP)
    topic:append("own", "1")
    assert.equal(10, store:import("grown", dir, { partition = 2 }))
    assert.same({ 1, 0, 10 }, { topic:latest(0), topic:latest(1), topic:latest(2) })
    assert.equal(10, store:import("grown", dir, { partition = 1 }))
    assert.equal(10, (topic:append("k", "v", { partition = 1 })))
    store:close()
    topic = support.open(path):topic "grown"
    assert.same({ 1, 11, 10 }, { topic:latest(0), topic:latest(1), topic:latest(2) })
  end)

  it("leaves a partition alone that has had records", function()
    local dir = support.kafka_directory "spanning"
    local topic = store:topic("t", KEEP)
    topic:append("k", "v")
    fails("exists", "t", dir)
    topic:delete_records(1)
    fails("exists", "t", dir)
    assert.equal(1, topic:latest())
    assert(store:import("u", dir))
    fails("exists", "u", dir)
  end)

  it("wants a name, a directory, a number", function()
    local dir = support.kafka_directory "spanning"
    fails("unknown_partition", "t", dir, { partition = -1 })
    fails("unknown_partition", "t", dir, { partition = 100000 })
    fails("unknown_partition", "t", dir, { partition = 1000000000 })
    fails("not_found", "t", dir .. "-missing")
    fails("not_found", "t", dir .. "/" .. disk.log(0))
    fails("not_found", "t", (dir:gsub("/[^/]*$", "")))
    assert.has_error(function() store:import("t", dir, { partiton = 1 }) end)
    assert.has_error(function() store:import("a/b", dir) end)
    assert.has_error(function() store:import("t") end)
    assert.same({}, store:topics())
  end)

  it("is not for a store that is only read", function()
    store:topic("t", {})
    local reader = support.open(path, { readonly = true })
    local _, _, code = reader:import("u", (support.kafka_directory "spanning"))
    assert.equal("readonly", code)
  end)

  it("leaves out a torn end and the padding of files", function()
    local dir = support.kafka_directory "spanning"
    local last = dir .. "/" .. disk.log(9)
    disk.write(last, disk.read(last) .. disk.read(last):sub(1, 50))
    disk.write(dir .. "/" .. disk.log(3), disk.read(dir .. "/" .. disk.log(3)) .. ("\0"):rep(70000))
    for _, extension in ipairs { ".index", ".timeindex" } do disk.write((last:gsub("%.log$", extension)), ("\0"):rep(960)) end
    assert.same({ 10, 50 }, { store:import("t", dir) })
    local topic = store:topic("t", KEEP)
    assert.equal(50, topic:stats().partitions[0].truncated_bytes)
    assert.same({ 209, 437, 73 }, { topic:segments()[1].size, topic:segments()[2].size, topic:segments()[3].size })
    assert.equal(437, #disk.read(topic:segments()[2].path))
    topic:append("k", "v")
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1 k=v", support.words(topic:records()))
  end)

  it("refuses damage that is no torn end", function()
    local dir = support.kafka_directory "spanning"
    local file = dir .. "/" .. disk.log(3)
    local bytes = disk.read(file)
    disk.write(file, bytes:sub(1, 65) .. "!" .. bytes:sub(67))
    local message = fails("corrupt", "t", dir)
    assert.truthy(message:find(file, 1, true))
    assert.truthy(message:find("position 0", 1, true))
    disk.write(file, bytes:sub(1, -10))                       -- a closed segment that is cut off
    assert.truthy(fails("corrupt", "t", dir):find(file, 1, true))
    disk.write(file, bytes)
    assert.equal(10, store:import("t", dir))
  end)

  it("tells of a whole batch at the end that it leaves out", function()
    local dir = support.kafka_directory "spanning"
    local last = dir .. "/" .. disk.log(9)
    local bytes = disk.read(last)
    disk.write(last, bytes .. bytes:sub(1, 70) .. "!" .. bytes:sub(72))
    assert.same({ 10, #bytes - 1 }, { store:import("t", dir) })
    assert.same({ 10, 0 }, { store:import("u", (support.kafka_directory "spanning")) })
  end)

  it("refuses closed segments that were cut, where a batch ends, too", function()
    local dir = support.kafka_directory "compacted"
    local name = disk.list(dir, ".log")[1]
    local file = dir .. "/" .. name
    local bytes = disk.read(file)
    local batches = disk.batches(bytes)
    for _, size in ipairs { 0, batches[2].position, batches[#batches].position } do
      for _, behind in ipairs { "", ("\0"):rep(5), ("\0"):rep(60) } do
        disk.write(file, bytes:sub(1, size) .. behind)
        assert.truthy(fails("corrupt", "t", dir):find(file, 1, true))
      end
      disk.write(file, bytes:sub(1, size) .. ("\0"):rep(5000))
      fails("corrupt", "t", dir)
    end
    os.remove(file)
    local other = disk.list(dir, ".log")[1]
    disk.write(dir .. "/" .. disk.log(0), "")                 -- so the missing one is no longer the first
    if name ~= disk.log(0) then assert.truthy(fails("corrupt", "t", dir):find(name, 1, true), other) end
  end)

  it("does not mind damaged indexes", function()
    local dir = support.kafka_directory "compacted"
    for _, extension in ipairs { ".index", ".timeindex" } do
      for _, name in ipairs(disk.list(dir, extension)) do
        local bytes = disk.read(dir .. "/" .. name)
        for byte = math.max(#bytes - 11, 1), #bytes do
          disk.write(dir .. "/" .. name, bytes:sub(1, byte - 1) .. string.char(255 - bytes:byte(byte)) .. bytes:sub(byte + 1))
          local topic = ("t%s.%d"):format(name, byte)
          assert.equal(587, store:import(topic, dir))
        end
        disk.write(dir .. "/" .. name, bytes)
      end
    end
  end)

  it("ends transactions that are open, if asked to", function()
    local dir = support.kafka_directory "transactions"
    assert.equal(14, store:import("open", dir))
    local topic = store:topic("open", KEEP)
    topic:append("k", "hidden")
    assert.same({ 9, 15 }, { topic:stats().partitions[0].last_stable_offset, topic:latest() })
    assert.equal(15, store:import("ended", dir, { abort_open = true }))
    topic = store:topic("ended", KEEP)
    topic:append("k", "seen")
    assert.same({ 16, 16 }, { topic:stats().partitions[0].last_stable_offset, topic:latest() })
    local before = records(assert(sediment.open_partition(dir)), "committed")
    local list = support.collect(topic:records { from = 9 })
    assert.equal("seen", list[#list].value)
    assert.equal(before, records(topic, "committed"):gsub("\n15 [^\n]*$", ""):gsub("\n1[0-4] [^\n]*", ""), nil)
    store:close()
    store = support.open(path)
    topic = store:topic "ended"
    assert.same({ 16, 16 }, { topic:stats().partitions[0].last_stable_offset, topic:latest() })
    assert.same({ 15, 0 }, { store:import("again", dir, { abort_open = true }) })
    assert.has_error(function() store:import("x", dir, { abort_open = 1 }) end)
  end)

  it("refuses the formats before Kafka 0.11", function()
    local folder = support.foreign() .. "old-0"
    assert.equal(0, disk.run("mkdir '" .. folder .. "'"))
    -- One message of version 1: offset, size, CRC, magic, attributes, timestamp, no key, a value.
    disk.write(folder .. "/" .. disk.log(0), "\000\000\000\000\000\000\000\000\000\000\000\062\169\147\092\043\001\000"
      .. "\000\000\001\139\207\229\104\000\255\255\255\255\000\000\000\040" .. ("x"):rep(40))
    local message = fails("unsupported", "t", folder)
    assert.truthy(message:find(folder, 1, true))
    disk.write(folder .. "/" .. disk.log(0), "no batch")
    fails("corrupt", "t", folder)
    disk.write(folder .. "/" .. disk.log(0), ("\0"):rep(1000))
    assert.equal(0, store:import("t", folder))
  end)

  it("puts right what a broker's crash has left in the directory", function()
    local dir = support.kafka_directory "spanning"
    local merged = dir .. "/" .. disk.log(0)
    disk.write(merged .. ".deleted", "rubbish")
    disk.write(dir .. "/" .. disk.log(3) .. ".cleaned", "half")
    disk.write(dir .. "/" .. disk.log(3) .. ".swap", "forgotten with it")
    assert.equal(10, store:import("t", dir))
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1", support.words(store:topic("t", KEEP):records()))
    os.remove(dir .. "/" .. disk.log(3) .. ".cleaned")
    disk.write(merged .. ".swap", disk.read(dir .. "/" .. disk.log(3)))      -- takes the place of both
    disk.write(dir .. "/" .. disk.log(3) .. ".swap", "")
    os.remove(dir .. "/" .. disk.log(3) .. ".swap")
    assert.equal(10, store:import("u", dir))
    assert.equal("c=1 c- d=1 tail=1", support.words(store:topic("u", KEEP):records()))
    for _, suffix in ipairs { ".swap", ".cleaned", ".deleted" } do
      assert.same({}, disk.list(path .. "/t-0", suffix))
      assert.same({}, disk.list(path .. "/u-0", suffix))
    end
  end)

  it("makes a .txnindex anew that lacks a transaction", function()
    local dir = support.kafka_directory "spanning"
    local index = dir .. "/" .. string.format("%020d.txnindex", 3)
    local bytes = disk.read(index)
    assert.equal(34, #bytes)
    for i, broken in ipairs { "", bytes:sub(1, 20), ("\0"):rep(34) } do
      disk.write(index, broken)
      assert(store:import("t" .. i, dir))
      assert.equal(bytes, disk.read(path .. "/t" .. i .. "-0/" .. string.format("%020d.txnindex", 3)))
    end
  end)

  it("takes a partition of another store once that is closed", function()
    local other = support.open()
    local topic = other:topic("mine", { cleanup_policy = "compact", delete_retention_ms = 0, segment_ms = 1000 })
    topic:append("a", "1")
    topic:append("a", nil)
    local dir = topic:segments()[1].path:gsub("/[^/]*$", "")
    assert.truthy(fails("busy", "t", dir):find("close", 1, true))
    topic:roll()
    topic:compact { force = true }
    support.now = support.now + 1
    topic:append("b", "1")
    topic:roll()
    topic:compact { force = true }
    local floor = topic:stats().partitions[0].purge_floor
    assert.equal(1, floor)
    other:close()
    assert.equal(3, store:import("t", dir))
    assert.equal("b=1", support.words(store:topic("t", KEEP):records()))
    assert.equal(floor, store:topic("t"):stats().partitions[0].purge_floor)
  end)

  it("leaves nothing behind when the disk is full", function()
    local dir = support.kafka_directory "spanning"
    local script = disk.script(path .. ".lua", [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false }))
      local done, message, code = store:import("big", arg[2])
      assert(not done and code == "disk_full", message)
      assert(#store:topics() == 0)
      os.exit(0, true)
    ]])
    local big = dir .. "/" .. disk.log(0)
    disk.write(big, disk.read(big) .. ("\0"):rep(10) .. ("x"):rep(3000000))
    store:close()
    assert.equal(0, disk.run("ulimit -f 2000; " .. script .. " '" .. path .. "' '" .. dir .. "'"))
    assert.equal("", folders(path))
  end)
end)

describe("import beside other processes", function()
  after_each(support.cleanup)

  -- One of them creates the topic; the others find it grown, or grow it.
  it("goes on in several processes at once, into partitions of a topic that none has made", function()
    local dir = support.kafka_directory "spanning"
    local script = disk.script(dir .. ".lua", [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false }))
      local done, message, code = store:import("t", arg[2], { partition = tonumber(arg[3]) })
      print(done, message, code)
      store:close()
    ]])
    for _ = 1, 20 do
      local path = support.path()
      local pipe = assert(io.popen(("for p in 3 1 0 2; do %s '%s' '%s' $p & done; wait"):format(script, path, dir)))
      assert.equal(("10\t0\tnil\n"):rep(4), pipe:read "*a")
      pipe:close()
      local topic = support.open(path):topic "t"
      assert.equal(4, topic:partitions())
      for p = 0, 3 do assert.equal(10, topic:latest(p)) end
    end
  end)

  it("replaces an empty partition under a topic that is open elsewhere", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", KEEP)
    assert.equal(0, topic:latest())
    local dir = support.kafka_directory "spanning"
    local script = disk.script(path .. ".lua", [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false }))
      assert(store:import("t", arg[2]) == 10)
      assert(store:close())
    ]])
    assert.equal(0, disk.run(script .. " '" .. path .. "' '" .. dir .. "'"))
    assert.equal(10, (topic:append("mine", "1")))
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1 mine=1", support.words(topic:records()))
    store:maintain()
    store:close()
    topic = support.open(path):topic "t"
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1 mine=1", support.words(topic:records()))
  end)

  -- Killed after ever more system calls that change files: what is there afterwards is the whole partition or no sign of it.
  it("is all or nothing when its process is killed", function()
    local dir = support.kafka_directory "spanning"
    local script = disk.script(dir .. ".lua", [[
      local sediment = require "sediment"
      local store = assert(sediment.open(arg[1], { background = false }))
      io.write "." io.flush()
      if arg[3] == "empty" then assert(store:topic("t", {})) end
      assert(store:import("t", arg[2]))
    ]])
    local whole, none = 0, 0
    for _, before in ipairs { "missing", "empty" } do
      for pause = 0, 24 do
        local path = support.path()
        disk.run(string.format("{ %s '%s' '%s' %s & p=$!; sleep %.4f; kill -9 $p; wait $p; } > /dev/null 2>&1", script, path, dir, before,
                               0.006 + pause * 0.0008))       -- waits until it is dead, as timeout -s KILL does not
        local store = support.open(path)
        local topic = store:topic("t", KEEP)
        if topic:latest() == 10 then
          whole = whole + 1
          assert.equal("a=1 b=1 c=1 c- d=1 tail=1", support.words(topic:records()))
        else
          none = none + 1
          assert.equal(0, topic:latest())
          assert.equal(10, store:import("t", dir))
        end
        store:maintain()                                      -- takes the empty folder away that was replaced
        assert.equal("t-0", folders(path))
        assert.same({}, disk.list(path .. "/t-0", "sediment.deleted"))
        store:close()
      end
    end
    assert.equal(50, whole + none)
  end)
end)

-- Verification: each kind of damage is told with its file and place, nothing is changed by it, and what others do meanwhile is no finding.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("verifying", function()
  local path, folder

  before_each(function()
    path = support.path()
    folder = path .. "/t-0/"
  end)
  after_each(support.cleanup)

  local CONFIG = { index_interval_bytes = 200, segment_jitter_ms = 0 }

  -- A store with two closed segments and an active one, of batches with three records each; closed.
  local function make(config)
    local store = support.open(path)
    local topic = assert(store:topic("t", config or CONFIG))
    for i = 1, 30 do
      local batch = {}
      for j = 1, 3 do batch[j] = { key = "k" .. (i * 3 + j) % 7, value = ("v"):rep(40) .. i, timestamp = support.now + i } end
      assert(topic:append_batch(batch))
      if i % 10 == 0 and i < 30 then topic:roll() end
    end
    return store, topic
  end

  -- The control pages are memory that is shared.
  local function fingerprint(dir) return disk.fingerprint(dir, "sediment.control") end

  -- The report of a verification that changes nothing.
  local function verify(store, options)
    local before = fingerprint(path)
    local report = assert(store:verify(options))
    assert.equal(before, fingerprint(path))
    assert.equal(#report.problems == 0, report.ok)
    return report
  end

  local function readonly() return support.open(path, { readonly = true }) end

  -- The only problem of the closed store.
  local function only_problem()
    local report = verify(readonly())
    local told = {}
    for i, p in ipairs(report.problems) do told[i] = p.message end
    assert.equal(1, #report.problems, table.concat(told, "\n"))
    assert.is_false(report.ok)
    local p = report.problems[1]
    assert.equal("string", type(p.message))
    return p, report
  end

  local function log(base) return folder .. disk.log(base) end
  local function side(base, extension) return folder .. ("%020d."):format(base) .. extension end

  local function patch(file, at, bytes)
    local all = disk.read(file)
    disk.write(file, all:sub(1, at) .. bytes .. all:sub(at + #bytes + 1))
  end

  local function flip(file, at)
    local byte = disk.read(file):byte(at + 1)
    patch(file, at, string.char((byte + 1) % 256))
  end

  it("counts what there is, also what is staged", function()
    local store, topic = make()
    local report = verify(store)
    assert.is_true(report.ok)
    assert.same({ 1, 1, 3, 30, 90, 0 },
      { report.topics, report.partitions, report.segments, report.batches, report.records, report.dropped })
    local size = 0
    for _, s in ipairs(topic:segments()) do size = size + s.size end
    assert.equal(size, report.bytes)
    assert(topic:append("k", "staged"))
    assert.equal(91, verify(store).records)
    assert.equal(30, verify(store).batches)
    assert.equal(91, verify(readonly()).records)
    store:close()
    assert.equal(31, verify(readonly()).batches)
  end)

  it("is of one topic, if it is named", function()
    local store = make()
    assert(store:topic("u", { partitions = 3 }))
    local report = verify(store, { topic = "u" })
    assert.same({ 1, 3, 0 }, { report.topics, report.partitions, report.records })
    assert.equal(4, verify(store).partitions)
    local _, code
    report, _, code = store:verify { topic = "v" }
    assert.same({ nil, "unknown_topic" }, { report, code })
    assert.truthy(support.raised(store.verify, store, { topics = "u" }):find "topics")
    store:close()
    assert.truthy(support.raised(store.verify, store):find "use after close")
  end)

  it("finds a partition that was never opened in order", function()
    local store = support.open(path)
    assert(store:topic("t", {}))
    store:close()
    assert(disk.run("rm -r '" .. folder .. "'") == 0)
    local report = verify(readonly())
    assert.is_true(report.ok)
    assert.equal(1, report.partitions)
  end)

  -- ---- damage; the store is closed ----

  local function closed()
    make():close()
    support.damaged()
  end

  it("tells of a flipped byte in a record, and goes on behind it", function()
    closed()
    local batch = disk.batches(disk.read(log(0)))[4]
    flip(log(0), batch.position + 80)
    local p, report = only_problem()
    assert.same({ "t", 0, log(0), batch.position, 9 }, { p.topic, p.partition, p.file, p.position, p.offset })
    assert.same({ "corrupt", "data" }, { p.code, p.harm })
    assert.same({ 29, 87 }, { report.batches, report.records })
  end)

  it("tells of a damaged size", function()
    closed()
    local batch = disk.batches(disk.read(log(30)))[2]
    flip(log(30), batch.position + 9)
    local p, report = only_problem()
    assert.same({ log(30), batch.position, 33, "data" }, { p.file, p.position, p.offset, p.harm })
    assert.equal(29, report.batches)
  end)

  it("tells of a base offset, which no CRC covers, in closed segments and in the last", function()
    for _, base in ipairs { 0, 60 } do
      closed()
      local batch = disk.batches(disk.read(log(base)))[5]
      flip(log(base), batch.position + 7)
      local p = only_problem()
      assert.same({ log(base), batch.position, base + 12, "data" }, { p.file, p.position, p.offset, p.harm })
      disk.run("rm -r '" .. path .. "'")
    end
  end)

  it("tells of a segment that was cut between two batches", function()
    closed()
    local batch = disk.batches(disk.read(log(30)))[8]
    disk.write(log(30), disk.read(log(30)):sub(1, batch.position))
    local p = only_problem()
    assert.same({ log(30), batch.position, 51, "data" }, { p.file, p.position, p.offset, p.harm })
  end)

  it("tells of a log whose end is gone since it was closed", function()
    closed()
    local batch = disk.batches(disk.read(log(60)))[8]
    disk.write(log(60), disk.read(log(60)):sub(1, batch.position))
    local found = {}
    for _, p in ipairs(verify(readonly()).problems) do found[#found + 1] = p.harm .. " " .. p.file .. " " .. (p.offset or "") end
    assert.equal("data " .. log(60) .. " 81", found[1])
  end)

  -- Bytes of a batch are changed, and its CRC with them: it was written so.
  local function xor(a, b)
    local r, place = 0, 1
    while a > 0 or b > 0 do
      if a % 2 ~= b % 2 then r = r + place end
      a, b, place = (a - a % 2) / 2, (b - b % 2) / 2, place * 2
    end
    return r
  end

  local function crc32c(bytes)
    local crc = 0xffffffff
    for i = 1, #bytes do
      crc = xor(crc, bytes:byte(i))
      for _ = 1, 8 do crc = crc % 2 == 1 and xor((crc - 1) / 2, 0x82f63b78) or crc / 2 end
    end
    return xor(crc, 0xffffffff)
  end

  local function forge(file, batch, at, bytes)
    patch(file, batch.position + at, bytes)
    local crc, text = crc32c(disk.read(file):sub(batch.position + 22, batch.position + batch.size)), ""
    for _ = 1, 4 do crc, text = (crc - crc % 256) / 256, string.char(crc % 256) .. text end
    patch(file, batch.position + 17, text)
  end

  it("tells of a batch that cannot be decompressed, though its CRC holds", function()
    local store, topic = make()
    assert(topic:append_batch({ { key = "a", value = ("x"):rep(100) }, { key = "b", value = "y" } }, { compression = "lz4" }))
    store:close()
    support.damaged()
    local batches = disk.batches(disk.read(log(60)))
    local last = batches[#batches]
    assert.equal(3, last.codec)
    forge(log(60), last, 70, "????????")
    local p = only_problem()
    assert.same({ log(60), last.position, 90, "corrupt", "data" }, { p.file, p.position, p.offset, p.code, p.harm })
  end)

  it("tells of records that do not add up, and of a largest timestamp that is none", function()
    closed()
    local batches = disk.batches(disk.read(log(0)))
    forge(log(0), batches[2], 61, "\2")                          -- the length of the first record
    forge(log(0), batches[4], 42, "\255")                        -- the lowest byte of the largest timestamp
    local found = {}
    for i, p in ipairs(verify(readonly()).problems) do
      found[i] = p.position .. " " .. p.harm .. " " .. p.file:match "%.(%a+)$"
    end
    assert.same({ batches[2].position .. " data log", batches[4].position .. " data log" }, { found[1], found[2] })
  end)

  for _, case in ipairs { { "index", 4, "position" },
    { "index", 0, "offset" }, { "timeindex", 7, "timestamp" }, { "timeindex", 8, "offset" } } do
    it("tells of the " .. case[3] .. " of an entry of the " .. case[1], function()
      closed()
      local entry = case[1] == "index" and 8 or 12
      flip(side(30, case[1]), entry + case[2])
      local p, report = only_problem()
      assert.same({ side(30, case[1]), entry, "corrupt", "derived" }, { p.file, p.position, p.code, p.harm })
      assert.equal(90, report.records)
      support.open(path):close()                                -- which need not make it anew, but may
    end)
  end

  it("tells of indexes that are missing, empty, or of no whole number of entries", function()
    closed()
    os.remove(side(0, "index"))
    disk.write(side(30, "timeindex"), "")
    local f = io.open(side(0, "timeindex"), "ab")
    f:write "odd"
    f:close()
    local list = {}
    for i, p in ipairs(verify(readonly()).problems) do list[i] = p.code .. " " .. p.harm .. " " .. p.file:match "[^/]*$" end
    table.sort(list)
    assert.same({ "corrupt derived " .. ("%020d.timeindex"):format(0), "corrupt derived " .. ("%020d.timeindex"):format(30),
      "not_found derived " .. ("%020d.index"):format(0) }, list)
    support.open(path):close()
    assert.is_true(verify(readonly()).ok)                       -- made anew
  end)

  it("tells of a digest, a state file, epochs and a checkpoint that are damaged", function()
    closed()
    flip(side(30, "digest"), 50)
    flip(folder .. "sediment.state", 30)
    patch(folder .. "leader-epoch-checkpoint", 0, "x")
    patch(path .. "/recovery-point-offset-checkpoint", 0, "x")
    local files, own = {}, 0
    for _, p in ipairs(verify(readonly()).problems) do
      files[#files + 1] = p.file:sub(#path + 2)
      assert.same({ "corrupt", "derived" }, { p.code, p.harm })
      if not p.topic then own = own + 1 end
    end
    table.sort(files)
    assert.same({ "recovery-point-offset-checkpoint", "t-0/" .. ("%020d.digest"):format(30), "t-0/leader-epoch-checkpoint",
      "t-0/sediment.state" }, files)
    assert.equal(1, own)
  end)

  it("tells of the list of topics, when it is damaged while the store is open", function()
    local store = make()
    support.damaged()
    flip(path .. "/sediment.topics", 30)
    local p = store:verify().problems[1]
    assert.same({ path .. "/sediment.topics", "corrupt", "data" }, { p.file, p.code, p.harm })
    assert.is_nil(p.topic)
    assert.equal(90, store:verify().records)
    flip(path .. "/sediment.topics", 30)
    for _ = 1, 254 do flip(path .. "/sediment.topics", 30) end
    assert.is_true(store:verify().ok)
  end)

  it("tells of a partition that is gone, and verifies the others", function()
    local store = make()
    assert(store:topic("u", {}):append("k", "v"))
    store:close()
    support.damaged()
    disk.run("rm -r '" .. folder .. "'")
    local p, report = only_problem()
    assert.same({ "t", 0, "not_found", "data" }, { p.topic, p.partition, p.code, p.harm })
    assert.equal(1, report.records)
  end)

  it("lists a thousand problems, and counts the rest", function()
    local store = support.open(path)
    local topic = store:topic("t", { segment_bytes = 10 ^ 7 })
    for _ = 1, 2100 do topic:append_batch { { key = "k", value = "v" } } end
    store:close()
    support.damaged()
    local parts, bytes = {}, disk.read(log(0))
    for i, b in ipairs(disk.batches(bytes)) do
      local batch = bytes:sub(b.position + 1, b.position + b.size)
      parts[i] = i % 2 == 0 and batch or batch:sub(1, -2) .. "?"
    end
    disk.write(log(0), table.concat(parts))
    local report = verify(readonly())
    assert.same({ 1000, 50, 1050 }, { #report.problems, report.dropped, report.batches })
  end)

  it("sees the same in a bare partition", function()
    closed()
    flip(log(0), disk.batches(disk.read(log(0)))[4].position + 80)
    local partition = assert(sediment.open_partition(path .. "/t-0"))
    local report = assert(partition:verify())
    assert.same({ 0, 1, 29, false }, { report.topics, report.partitions, report.batches, report.ok })
    assert.equal(log(0), report.problems[1].file)
    partition:close()
    assert.truthy(support.raised(partition.verify, partition):find "use after close")
  end)

  it("finds Kafka's own directories in order", function()
    local data = debug.getinfo(1, "S").source:gsub("^@", ""):gsub("[^/]*$", "") .. "data/kafka"
    for _, name in ipairs(disk.list(data, ".tar.gz")) do
      local dir = support.kafka_directory((name:gsub("%.tar%.gz$", "")))
      local partition = assert(sediment.open_partition(dir))
      local report = assert(partition:verify())
      assert.is_true(report.ok, dir .. (report.problems[1] and report.problems[1].message or ""))
      local count = 0
      for _ in partition:records { isolation = "uncommitted" } do count = count + 1 end
      assert.equal(count, report.records)
      partition:close()
    end
  end)

  -- ---- beside others ----

  local BUSY = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false }))
local topic = assert(store:topic("t", { cleanup_policy = "compact", segment_bytes = 4000, index_interval_bytes = 100,
  min_cleanable_dirty_ratio = 0, delete_retention_ms = 0, file_delete_delay_ms = 0 }))
local done = io.open(arg[2])
repeat
  for i = 1, 300 do assert(topic:append("k" .. i % 37, i % 5 > 0 and "value " .. i or nil)) end
  assert(topic:roll())
  assert(topic:compact { force = true })
  assert(store:maintain())
  done = io.open(arg[2])
until done
print "stopped"
]]

  it("finds nothing beside a process that appends, rolls, cleans and deletes", function()
    local stop, out = path .. ".stop", path .. ".out"
    local store = support.open(path)
    assert(store:topic("t", { cleanup_policy = "compact", segment_bytes = 4000, index_interval_bytes = 100 }))
    local command = disk.script(path .. ".lua", BUSY)
    assert(disk.run(("{ %s '%s' '%s' > '%s' 2>&1 || echo failed >> '%s'; } &"):format(command, path, stop, out, out)) == 0)
    local topic = store:topic "t"
    while topic:latest() < 1000 do end
    local records, rounds = 0, 0
    for i = 1, 150 do
      local of = i % 2 == 0 and store or readonly()
      local report, message, code = of:verify()
      assert(report or code == "busy", message)
      if report then
        assert(report.ok, report.problems[1] and report.problems[1].message)
        records, rounds = records + report.records, rounds + 1
      end
      if of ~= store then of:close() end
    end
    assert(rounds > 100 and records > rounds)
    disk.write(stop, "")
    while not disk.read(out):find "%a" do end
    assert.equal("stopped\n", disk.read(out))
  end)
end)

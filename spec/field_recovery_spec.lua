-- What went wrong at the opening of stores in the field, told again: docs/field-failures-covered.md.
local support = require "support"
local disk = require "disk"
local craft = require "craft"

describe("opening, where others have failed,", function()
  after_each(support.cleanup)

  local function name(base, extension) return string.format("%020d", base) .. extension end

  local function stats(topic) return topic:stats().partitions[0] end

  -- A copy of a store as its death leaves it, or a loss of power: no control page is believed then.
  local function crashed(path, lost_power)
    local copy = path .. ".crashed"
    os.execute("rm -rf '" .. copy .. "'")
    disk.copy(path, copy)
    for _, folder in ipairs(lost_power and { "", "/t-0" } or {}) do os.remove(copy .. folder .. "/sediment.control") end
    return copy
  end

  it("keeps a log that begins at another offset than 0 (NATS 6753)", function()
    local topic, store, path = craft.import(craft.directory { [1000] = craft.record(1000, "a", "1") }, { retention_ms = -1 })
    for i = 1, 3 do
      assert.equal(1000 + i, (topic:append("b", tostring(i))))
      store:close()
      store = support.open(path)
      topic = store:topic "t"
      assert.same({ 1000, 1001 + i }, { topic:earliest(), topic:latest() })
    end
    topic = support.open(crashed(path, true)):topic "t"
    assert.equal("a=1 b=1 b=2 b=3", support.words(topic:records()))
    assert.equal(1000, topic:earliest())
  end)

  it("cuts zeros at the end, as preallocation and a loss of power leave them (ext4, XFS)", function()
    for _, lost_power in ipairs { false, true } do
      local path = support.path()
      local topic = support.open(path):topic("t", { preallocate = true, segment_bytes = 8192 })
      topic:append("a", "1")
      topic:roll()
      local base = topic:latest()
      topic:append_batch { { key = "b", value = "1" } }
      local file, size = "/t-0/" .. disk.log(base), topic:segments()[2].size
      assert.equal(8192, #disk.read(path .. file))
      local copy = crashed(path, lost_power)
      disk.write(copy .. file, disk.read(copy .. file) .. ("\0"):rep(4096))
      local reopened = support.open(copy):topic "t"
      assert.equal("a=1 b=1", support.words(reopened:records()))
      assert.equal(size, #disk.read(copy .. file))
      assert.equal(8192 + 4096 - size, stats(reopened).truncated_bytes)
      assert(reopened:append("c", "1"))
      assert.equal("a=1 b=1 c=1", support.words(reopened:records()))
    end
  end)

  it("takes an empty last segment without an index for what it is (KAFKA-13603)", function()
    for _, missing in ipairs { {}, { ".index" }, { ".timeindex" }, { ".index", ".timeindex" } } do
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", {})
      topic:append("a", "1")
      assert.equal(1, topic:roll())
      store:close()
      for _, extension in ipairs(missing) do os.remove(path .. "/t-0/" .. name(1, extension)) end
      topic = support.open(path):topic "t"
      assert.same({ 1, 0, 0, 2 }, { topic:latest(), stats(topic).corrupt_batches, stats(topic).truncated_bytes, #topic:segments() })
      assert.equal(1, (topic:append("b", "1")))
      assert.equal("a=1 b=1", support.words(topic:records()))
    end
  end)

  it("does without checkpoints that are empty, cut or garbage (KAFKA-1758, KAFKA-1539)", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact,delete", retention_ms = -1 })
    for i = 1, 6 do topic:append("k" .. i % 2, tostring(i)) end
    topic:roll()
    topic:compact { force = true }
    topic:append("k1", "7")
    topic:append("k1", "8")
    topic:delete_records(5)
    store:close()
    local texts = { "", "\n", "0\n", "0\n1\n", "0\n1\nt 0", "0\n2\nt 0 1\n", "0\n0\nt 0 1\n", "0\n-1\n", "1\n1\nt 0 1\n", "nonsense",
                    "0\n1\nt 0 99999999999999999999\n", "0\n1\nt 0 -7\n", "0\n1\nt 0 0\n", "0\n1\n" .. ("\0"):rep(10),
                    ("\0"):rep(100), ("\255"):rep(50) }
    for _, lost_power in ipairs { false, true } do
      for i, text in ipairs(texts) do
        local copy = crashed(path, lost_power)
        for _, checkpoint in ipairs { "recovery-point", "cleaner", "log-start" } do
          disk.write(copy .. "/" .. checkpoint .. "-offset-checkpoint", text)
        end
        store = support.open(copy)
        topic = store:topic "t"
        assert.equal("k0=6 k1=7 k1=8", support.words(topic:records()), "text " .. i)
        assert.same({ 5, 8 }, { topic:earliest(), topic:latest() }, "text " .. i)
        assert.equal(8, (topic:append("k1", "9")))
        topic:roll()
        assert.equal(1, topic:compact({ force = true }).partitions)
        assert.equal("k0=6 k1=9", support.words(topic:records()))
        store:close()
      end
    end
  end)

  -- Three closed segments of two batches and the active one; what they read.
  local WORDS = "a=1 a=2 b=1 b=2 c=1 c=2 d=1 d=2"
  local function four_segments(path, config)
    local store = support.open(path)
    local topic = store:topic("t", config)
    for i, key in ipairs { "a", "b", "c", "d" } do
      topic:append_batch { { key = key, value = "1", timestamp = support.now + i } }
      topic:append_batch { { key = key, value = "2", timestamp = support.now + i } }
      if i < 4 then topic:roll() end
    end
    return topic, store
  end

  local MEMBERS = { ".index", ".timeindex", ".digest" }

  it("makes missing index files anew, and removes forgotten ones (KAFKA-6324, KAFKA-6194, KAFKA-6322)", function()
    local path = support.path()
    local _, store = four_segments(path, { index_interval_bytes = 0 })
    store:close()
    math.randomseed(38)
    for round = 1, 30 do
      local copy = crashed(path, round % 2 == 0)
      local dir = copy .. "/t-0/"
      for _ = 1, math.random(3) do os.remove(dir .. name(2 * math.random(0, 3), MEMBERS[math.random(3)])) end
      local orphans = {}
      for _ = 1, 3 do
        local orphan = name(math.random(0, 20), MEMBERS[math.random(3)] .. ({ ".deleted", ".cleaned", ".swap" })[math.random(3)])
        orphans[#orphans + 1] = orphan
        disk.write(dir .. orphan, ("\0"):rep(24))
      end
      for _, extension in ipairs(MEMBERS) do
        orphans[#orphans + 1] = name(17, extension)
        disk.write(dir .. name(17, extension), ("\1"):rep(24))
      end
      store = support.open(copy)
      local topic = store:topic "t"
      assert.equal(WORDS, support.words(topic:records()))
      for i = 1, 4 do assert.equal(2 * (i - 1), (topic:offset_for_time(support.now + i))) end
      assert.same({ 4, 0 }, { #topic:segments(), stats(topic).corrupt_batches })
      store:close()
      for _, orphan in ipairs(orphans) do assert.is_false(disk.exists(dir .. orphan), orphan) end
      for base = 0, 6, 2 do
        for _, extension in ipairs { ".index", ".timeindex", base < 6 and ".digest" or ".index" } do
          assert.is_true(disk.exists(dir .. name(base, extension)), name(base, extension))
        end
      end
    end
  end)

  it("lets segments be deleted that lack a file (KAFKA-6324, KAFKA-6194, KAFKA-6322)", function()
    for _, extension in ipairs { ".index", ".timeindex", ".digest", ".log" } do
      local path = support.path()
      local topic, store = four_segments(path, { file_delete_delay_ms = 1000, retention_ms = -1 })
      local dir = path .. "/t-0/"
      os.remove(dir .. name(2, extension))
      topic:delete_records(6)
      assert.equal(3, topic:retain().segments)
      for _, file in ipairs(disk.list(dir, name(0, extension))) do os.remove(dir .. file) end
      local report = store:maintain { now = support.now + 10 ^ 9 }
      assert.equal(0, report.failed, report.reason)
      assert.same({}, disk.list(dir, ".deleted"))
      assert.equal("d=1 d=2", support.words(topic:records()))
      store:close()
      assert.equal("d=1 d=2", support.words(support.open(path):topic("t"):records()))
    end
  end)

  it("goes on without a lost segment, and tells (KAFKA-6324, KAFKA-6194, KAFKA-6322)", function()
    support.damaged()
    for base = 0, 6, 2 do
      for _, lost_power in ipairs { false, true } do
        local path = support.path()
        local _, store = four_segments(path, {})
        store:close()
        local copy = crashed(path, lost_power)
        os.remove(copy .. "/t-0/" .. disk.log(base))
        local topic = support.open(copy):topic "t"
        local what = ("segment %d, %s"):format(base, tostring(lost_power))
        assert.equal(base == 6 and "c=1 c=2" or "d=1 d=2", support.words(topic:records { from = base == 6 and 4 or 6 }))
        if base == 0 then assert.same({ 2, 1 }, { topic:earliest(), stats(topic).corrupt_batches }, what)
        elseif base == 6 then assert.equal(140, stats(topic).truncated_bytes, what)
        else
          assert.equal("corrupt", support.raised(function() return support.words(topic:records()) end).code, what)
          assert.equal(1, stats(topic).corrupt_batches, what)
        end
        assert.equal(8, (topic:append("e", "1")), what)
      end
    end
  end)

  it("makes an empty log of one whose end is below its start (KAFKA-10101)", function()
    for _, lost_power in ipairs { false, true } do
      for _, left in ipairs { 0, 1, 2 } do
        local path = support.path()
        local store = support.open(path)
        local topic = store:topic("t", { segment_bytes = 1000, retention_ms = -1 })
        for i = 0, 599 do topic:append_batch { { key = "k", value = tostring(i) } } end
        topic:delete_records(500)
        store:close()
        local copy = crashed(path, lost_power)
        for i, file in ipairs(disk.list(copy .. "/t-0", ".log")) do
          if i > left then os.execute(("rm '%s/t-0/%s'.*"):format(copy, file:gsub("%.log$", ""))) end
        end
        topic = support.open(copy):topic "t"
        assert.same({ topic:latest(), 1, "" }, { topic:earliest(), #topic:segments(), support.words(topic:records()) })
        assert(topic:latest() >= 600, "no offset is given twice")
        local base = topic:latest()
        assert.equal(base, topic:segments()[1].base_offset)
        assert.equal(base, (topic:append("k", "new")))
        assert.equal("k=new", support.words(topic:records()))
      end
    end
  end)
end)

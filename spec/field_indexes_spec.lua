-- What went wrong with index files in stores in the field, told again: docs/field-failures-covered.md.
local support = require "support"
local disk = require "disk"
local craft = require "craft"

local FAR = 2 ^ 31

describe("indexes, where others have failed,", function()
  after_each(support.cleanup)

  local function name(base, extension) return string.format("%020d", base) .. extension end

  -- Entries of an .index: { offset, position } each, relative to the segment's base.
  local function entries(path)
    local list = {}
    for a, b, c, d, e, f, g, h in disk.read(path):gmatch "(.)(.)(.)(.)(.)(.)(.)(.)" do
      local function number(w, x, y, z) return ((w:byte() * 256 + x:byte()) * 256 + y:byte()) * 256 + z:byte() end
      list[#list + 1] = { number(a, b, c, d), number(e, f, g, h) }
    end
    return list
  end

  -- Each entry is the last offset of a batch and where that begins, as Kafka's dump tool checks it.
  local function check_entries(topic, segment)
    local base, at = topic:segments()[segment].base_offset, {}
    for _, b in ipairs(disk.batches(disk.read(topic:segments()[segment].path))) do at[b.position] = b.last_offset - base end
    local list = entries((topic:segments()[segment].path:gsub("log$", "index")))
    for _, e in ipairs(list) do assert.equal(at[e[2]], e[1]) end
    return #list
  end

  -- All that can be asked of a partition up to `finish`: what each offset reads first, what each time finds.
  local function answers(topic, times, finish)
    local list = {}
    for from = topic:earliest(), finish do
      local offset, key, value = topic:records { from = from, to = finish }()
      list[#list + 1] = ("%s:%s:%s:%s"):format(from, tostring(offset), tostring(key), tostring(value))
    end
    for _, ms in ipairs(times) do list[#list + 1] = ("%s@%s"):format(ms, tostring((topic:offset_for_time(ms)))) end
    return table.concat(list, "\n")
  end

  -- A copy of a store as a loss of power leaves it: no control page is believed.
  local function crashed(path)
    disk.copy(path, path .. ".crashed")
    for _, folder in ipairs { "", "/t-0" } do os.remove(path .. ".crashed" .. folder .. "/sediment.control") end
    return path .. ".crashed"
  end

  it("let an empty segment be rolled again and again (KAFKA-6492, KAFKA-6388)", function()
    local topic = support.topic { segment_index_bytes = 8, index_interval_bytes = 0, segment_bytes = 200 }
    for i = 0, 9 do
      assert.equal(i, topic:roll())
      assert.equal(i, topic:roll())
      assert.equal(i, (topic:append_batch { { key = "k", value = tostring(i) } }))
    end
    assert.equal("0 1 2 3 4 5 6 7 8 9", support.bases(topic))
    topic:append("k", "10")                                   -- no index of 8 bytes has room for a time entry: each append rolls
    topic:append("k", "11")
    topic:flush()
    assert.equal(12, #support.collect(topic:records()))
  end)

  it("let a segment be rolled that was cut to nothing (KAFKA-6492, KAFKA-6388)", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { index_interval_bytes = 0 })
    topic:append("a", "1")
    topic:roll()
    topic:append("b", "1")
    topic:append("b", "2")
    store:close()
    local file = path .. "/t-0/" .. disk.log(1)
    disk.write(file, disk.read(file):sub(1, 40))              -- the active segment's only batch is torn
    topic = support.open(path):topic "t"
    assert(topic:stats().partitions[0].truncated_bytes > 0)
    assert.equal("a=1", support.words(topic:records()))
    local base = topic:latest()
    assert.equal(3, base)                                     -- no offset is given twice
    for i = 1, 3 do
      assert.equal(base, topic:roll())
      assert.equal(base, (topic:append("c", tostring(i))))
      base = topic:roll()
    end
    assert.equal("0 3 4 5 6", support.bases(topic))
    assert.equal("a=1 c=1 c=2 c=3", support.words(topic:records()))
  end)

  it("have an entry for each of many batches that come at once (KAFKA-806)", function()
    local batch, log = craft.batch { { key = "k", value = "v" }, { key = "k", value = "w" } }, {}
    for i = 0, 99 do log[i + 1] = craft.at(2 * i, batch) end
    for _, closed in ipairs { true, false } do
      local dir = craft.directory { [0] = table.concat(log), [closed and 200 or 0] = closed and "" or table.concat(log) }
      local topic, store = craft.import(dir, { index_interval_bytes = 1, retention_ms = -1 })
      assert.equal(99, check_entries(topic, 1))               -- the first batch of a segment has none
      assert.equal(200, #support.collect(topic:records()))
      store:close()
    end
  end)

  -- Tails cut where an index entry points, in between, below the first entry: indexes are as those made from the file alone.
  it("tell of nothing that a cut has taken (KAFKA-588, KAFKA-4734, KAFKA-4099)", function()
    local path = support.path()
    local topic = support.open(path):topic("t", { index_interval_bytes = 150, segment_ms = 1000 })
    for i = 0, 11 do topic:append_batch { { key = "k" .. i, value = ("v"):rep(20), timestamp = support.now + i } } end
    topic:flush()
    local origin = crashed(path)
    local batches = disk.batches(disk.read(origin .. "/t-0/" .. disk.log(0)))
    assert(#entries(origin .. "/t-0/" .. name(0, ".index")) > 3)
    for keep = 0, 11 do
      for _, torn in ipairs { 0, 30 } do
        local indexes = {}
        for _, fresh in ipairs { true, false } do
          local copy = ("%s.%d.%d.%s"):format(path, keep, torn, tostring(fresh))
          disk.copy(origin, copy)
          local file = copy .. "/t-0/" .. disk.log(0)
          disk.write(file, disk.read(file):sub(1, batches[keep + 1].position + torn))
          if fresh then
            for _, extension in ipairs { ".index", ".timeindex" } do os.remove(copy .. "/t-0/" .. name(0, extension)) end
          end
          local store = support.open(copy)
          local t = store:topic "t"
          assert.equal(torn, t:stats().partitions[0].truncated_bytes)
          assert.equal(keep, #support.collect(t:records()))
          assert.equal(keep > 0 and keep - 1 or nil, (t:offset_for_time(support.now + keep - 1)))
          assert.is_nil((t:offset_for_time(support.now + keep)))
          local segments = #t:segments()
          t:append("k", "v", { timestamp = support.now + 12 })
          assert.equal(segments, #t:segments())               -- what was cut makes nobody roll
          store:close()
          for _, extension in ipairs { ".index", ".timeindex" } do
            local index = copy .. "/t-0/" .. name(0, extension)
            assert.equal(keep > 0, disk.exists(index))        -- of nothing no segment is kept
            indexes[extension] = indexes[extension] or keep > 0 and disk.read(index)
            if keep > 0 then assert.equal(indexes[extension], disk.read(index)) end
          end
        end
      end
    end
  end)

  it("hold offsets up to 2^31 above the base, and no more (Redpanda 26431, 25979)", function()
    local base = 5000
    local dir = craft.directory {
      [base] = craft.record(base, "a", "1", 100) .. craft.record(base + 7, "b", "1", 200) .. craft.record(base + FAR - 1, "c", "1", 300),
    }
    local topic, store, path = craft.import(dir, { index_interval_bytes = 0, retention_ms = -1, segment_ms = "300000d" })
    assert.same({ { 7, 70 }, { FAR - 1, 140 } }, entries(path .. "/t-0/" .. name(base, ".index")))
    assert.equal(base + FAR, topic:latest())
    assert.equal(base + FAR, (topic:append_batch { { key = "d", value = "1", timestamp = 400 } }))
    assert.equal(("%d %.0f"):format(base, base + FAR), support.bases(topic))
    local function check(t)
      for from, key in pairs { [base] = "a", [base + 1] = "b", [base + 8] = "c", [base + FAR - 1] = "c", [base + FAR] = "d" } do
        assert.equal(key, (select(2, t:records { from = from }())))
      end
      for ms, offset in pairs { [100] = base, [101] = base + 7, [201] = base + FAR - 1, [301] = base + FAR } do
        assert.equal(offset, (t:offset_for_time(ms)))
      end
    end
    check(topic)
    store:close()
    check(support.open(path):topic "t")
    support.cleanup()

    -- The same, cut just above 2^31.
    dir = craft.directory {
      [base] = craft.record(base, "a", "1", 100) .. craft.record(base + 7, "b", "1", 200) .. craft.record(base + FAR - 1, "c", "1", 300),
      [base + FAR] = craft.record(base + FAR, "d", "1", 400) .. craft.record(base + FAR + 1, "e", "1", 500):sub(1, 50),
    }
    topic = craft.import(dir, { index_interval_bytes = 0, retention_ms = -1, segment_ms = "300000d" })
    check(topic)
    assert.equal(base + FAR + 1, topic:latest())
    assert.is_nil((topic:offset_for_time(401)))
  end)

  it("hold positions up to 2 GiB (KAFKA-6292, KAFKA-1670, KAFKA-4576)", function()
    local dir = craft.directory {}
    local next_offset = craft.sparse(dir .. "/" .. disk.log(0), 0, FAR - 200, "a")
    local topic, store, path = craft.import(dir, { segment_bytes = FAR - 1, retention_ms = -1, segment_ms = "300000d" })
    local function put(i) return (assert(topic:append_batch { { key = "k", value = ("v"):rep(30) .. i } })) end
    local size = topic:segments()[1].size
    assert.equal(FAR - 200, size)
    assert.equal(next_offset, put(0))
    assert.equal(FAR - 100, topic:segments()[1].size)
    assert.equal(next_offset + 1, put(1))
    assert.equal("0 " .. next_offset + 1, support.bases(topic))
    local function check(t)
      assert.equal(("v"):rep(30) .. 0, (select(3, t:records { from = next_offset }())))
      assert.equal(("v"):rep(30) .. 1, (select(3, t:records { from = next_offset + 1 }())))
      assert.equal(FAR, t:stats().partitions[0].size)
    end
    check(topic)
    store:close()
    check(support.open(path):topic "t")
  end)

  it("leave out what lies beyond 2 GiB, as recompression may make it (KAFKA-20036)", function()
    local dir = craft.directory {}
    local last = craft.sparse(dir .. "/" .. disk.log(0), 0, FAR + 3 * 2 ^ 24 + 200000, "a") - 1
    disk.write(dir .. "/" .. disk.log(last + 1), "")
    local topic, _, path = craft.import(dir, { retention_ms = -1, segment_ms = "300000d" })
    local list = entries(path .. "/t-0/" .. name(0, ".index"))
    for i, e in ipairs(list) do assert(e[1] == i and e[2] == i * 2 ^ 24 and e[2] < FAR) end
    assert.equal(127, #list)
    for _, offset in ipairs { 0, 127, 128, last } do assert.equal(offset, (topic:records { from = offset }())) end
  end)

  -- KAFKA's and NATS's states were rebuilt otherwise than they had grown; Redpanda crashed where the last segment had no index.
  local function random_store(path, seed)
    math.randomseed(seed)
    local topic = support.open(path):topic("t", { index_interval_bytes = math.random(0, 300), segment_bytes = math.random(400, 3000),
                                                  cleanup_policy = "compact,delete", retention_ms = -1, segment_ms = "300000d" })
    local times = {}
    for i = 1, 60 do
      local batch = {}
      for k = 1, math.random(4) do
        local timestamp = math.random(6) == 1 and -1 or math.random(0, 400)
        batch[k] = { key = "k" .. math.random(30), value = "v" .. i .. "." .. k, timestamp = timestamp }
      end
      topic:append_batch(batch)
      if i == 40 then topic:compact { force = true } end
      if i == 45 then topic:delete_records(20) end
    end
    topic:flush()
    for ms = -1, 401, 3 do times[#times + 1] = ms end
    return topic, times
  end

  local function survives(change)
    for seed = 1, 6 do
      local path = support.path()
      local topic, times = random_store(path, seed)
      local finish, copy = topic:latest(), crashed(path)
      local before = answers(topic, times, finish)
      change(copy .. "/t-0/", topic)
      local rebuilt = support.open(copy):topic "t"
      assert.equal(before, answers(rebuilt, times, finish), "seed " .. seed)
      assert.equal(0, rebuilt:stats().partitions[0].corrupt_batches)
      support.cleanup()
    end
  end

  it("answer the same when they are rebuilt (NATS 4842)", function()
    survives(function(dir)
      for _, file in ipairs(disk.list(dir, "index")) do os.remove(dir .. file) end
    end)
  end)

  it("may be missing or empty, those of the last segment too (Redpanda 10118, 1976)", function()
    for _, extension in ipairs { ".index", ".timeindex" } do
      for _, empty in ipairs { true, false } do
        survives(function(dir, topic)
          local file = dir .. name(topic:segments()[#topic:segments()].base_offset, extension)
          if empty then disk.write(file, "") else os.remove(file) end
        end)
      end
    end
  end)

  it("may be cut under the program, and so may a log (KAFKA-4614)", function()
    local path = support.path()
    local topic, times = random_store(path, 9)
    local before = answers(topic, times, topic:latest())
    for _, size in ipairs { 13, 5, 0 } do
      for _, file in ipairs(disk.list(path .. "/t-0", "index")) do
        assert.equal(0, disk.run(("truncate -s '<%d' '%s/t-0/%s'"):format(size, path, file)))
      end
      assert.equal(before, answers(topic, times, topic:latest()))
    end
    for _ = 1, 5 do
      topic:append_batch { { key = "k", value = ("v"):rep(100) } }
      topic:roll()
    end
    topic:compact { force = true }
    assert(#support.collect(topic:records()) > 5)

    support.damaged()                                         -- a .log, too: what was in it is told, the rest is read
    local closed = topic:segments()[1]
    assert.equal(0, disk.run(("truncate -s '<100' '%s'"):format(closed.path)))
    assert.equal("corrupt", support.raised(function() return support.words(topic:records()) end).code)
    assert(#support.collect(topic:records { from = topic:segments()[2].base_offset }) > 0)
  end)
end)

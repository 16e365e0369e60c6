-- A flipped byte in any file but the control page: nothing wrong is ever read, nothing good before it is lost, and the store goes on.
local support = require "support"
local disk = require "disk"

describe("a damaged byte", function()
  after_each(support.cleanup)

  local path, records, total

  -- Three segments; in a cleaned one, gaps.
  local function make(config)
    path, records, total = support.path(), {}, 0
    local store = support.open(path)
    local topic = store:topic("t", config)
    for i = 1, 40 do
      local batch = {}
      for j = 1, 1 + i % 4 do
        batch[j] = { key = "k" .. (i * 5 + j) % 9, value = "value " .. i .. "." .. j, timestamp = support.now + i }
      end
      assert(topic:append_batch(batch))
      if i % 15 == 0 then topic:roll() end
    end
    if config.cleanup_policy then assert(topic:compact { force = true }) end
    for offset, key, value, timestamp in topic:records() do records[offset], total = { key, value, timestamp }, total + 1 end
    local n = topic:latest()
    store:close()
    return n
  end

  local function flip(file, at)
    local bytes = disk.read(file)
    local old = bytes:byte(at)
    disk.write(file, bytes:sub(1, at - 1) .. string.char((old + math.random(1, 255)) % 256) .. bytes:sub(at + 1))
  end

  -- What can be read is as it was; a failure is one of those that say so.
  local function read_all(topic, from)
    local count = 0
    local ok, err = pcall(function()
      for offset, key, value, timestamp in topic:records { from = from } do
        local r = records[offset]
        assert(r, "offset " .. offset .. " was never written")
        assert(r[1] == key and r[2] == value and r[3] == timestamp, "offset " .. offset .. " changed")
        count = count + 1
      end
    end)
    if not ok then
      assert(type(err) == "table" and (err.code == "corrupt" or err.code == "offset_out_of_range"), tostring(err))
    end
    return count, ok
  end

  local function go_on(store, topic)
    local offset, message, code = topic:append("new", "record")
    if not offset then
      assert(code == "corrupt", message)
      return
    end
    records[offset] = { "new", "record", support.now }
    local last
    for found, key in topic:records { from = offset } do last = found .. key end
    assert.equal(offset .. "new", last)
    assert(store:maintain())
    topic:compact { force = true }
  end

  local function run(config, extension, rounds)
    local n = make(config)
    local original = path
    local kept = records
    for round = 1, rounds do
      path, records = original .. round, setmetatable({}, { __index = kept })
      disk.copy(original, path)
      local names = disk.list(path .. "/t-0", extension)
      local file = path .. "/t-0/" .. names[math.random(#names)]
      local size = #disk.read(file)
      if size > 0 then
        local at = math.random(size)
        flip(file, at)
        local what = string.format("round %d, byte %d of %s: ", round, at, file)
        local ok, err = pcall(function()
          local store = support.open(path)
          local topic = assert(store:topic "t")
          local count, whole = read_all(topic)
          if extension ~= ".log" then assert(whole and count == total, "an index cost records") end
          for from = topic:earliest(), topic:latest(), 13 do read_all(topic, from) end
          for i = 0, 45, 9 do
            local found = topic:offset_for_time(support.now + i)
            assert(found == nil or found <= n)
          end
          go_on(store, topic)
          store:close()
        end)
        if not ok then error(what .. tostring(err), 0) end
      end
      os.execute("rm -rf '" .. path .. "'")
    end
  end

  it("in a log", function()
    math.randomseed(1)
    run({ index_interval_bytes = 100 }, ".log", 80)
  end)

  it("in a cleaned log", function()
    math.randomseed(2)
    run({ index_interval_bytes = 100, cleanup_policy = "compact" }, ".log", 80)
  end)

  it("in an index", function()
    math.randomseed(3)
    run({ index_interval_bytes = 100 }, ".index", 40)
    run({ index_interval_bytes = 100, cleanup_policy = "compact" }, ".index", 20)
  end)

  it("in a time index", function()
    math.randomseed(4)
    run({ index_interval_bytes = 100 }, ".timeindex", 40)
    run({ index_interval_bytes = 100, cleanup_policy = "compact" }, ".timeindex", 20)
  end)

  -- No CRC covers a base offset, but offsets of a segment that was never cleaned have no gap.
  local function displaced(batch_number, closed)
    path, records = support.path(), {}
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 0, 8 do
      topic:append_batch { { key = "k", value = tostring(i) } }
      if closed and i % 3 == 2 then topic:roll() end
    end
    for offset, key, value, timestamp in topic:records() do records[offset] = { key, value, timestamp } end
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    local at = disk.batches(bytes)[batch_number].position + 8
    disk.write(file, bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + 2) % 256) .. bytes:sub(at + 1))
    read_all(support.open(path):topic "t")
  end

  it("in the base offset of a batch in the middle", function()
    displaced(2)
    displaced(2, true)
  end)

  -- The reader compares with where the batch before ended only if that is above 0: record 0 is read as 2.
  it("in the base offset of the first batch of the log", function()
    displaced(1)
    displaced(1, true)
  end)

  -- Only a batch that follows gives it away: record 2 is read as 4.
  it("in the base offset of the last batch of a closed segment", function() displaced(3, true) end)
  it("in the base offset of the last batch of the log", function() displaced(9) end)

  -- Nothing was torn there: sediment.state tells how long the file was, and all of it was whole.
  it("in the last batch of a store that was closed in order costs that batch alone, and is told", function()
    path, records = support.path(), {}
    support.damaged()
    local store = support.open(path)
    local topic = store:topic("t", {})
    for i = 0, 9 do topic:append_batch { { key = "k" .. i, value = tostring(i) } } end
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local size = #disk.read(file)
    flip(file, size - 1)
    for round = 1, 3 do
      store = support.open(path)
      topic = store:topic "t"
      local stats = topic:stats().partitions[0]
      assert.equal(0, stats.truncated_bytes)
      if round == 1 then assert.equal(1, stats.corrupt_batches) end
      assert.equal(9 + round, topic:latest())
      local found, told = {}, {}
      local function tell(from, to) told[#told + 1] = from .. "-" .. to end
      for offset in topic:records { on_corrupt = tell } do found[#found + 1] = offset end
      assert.same({ "9-10" }, told)
      assert.equal(8 + round, #found)
      assert.equal("corrupt", support.raised(function() for _ in topic:records() do end end).code)
      assert.equal(9 + round, topic:append("k", "goes on"))
      assert.equal(size, #disk.read(file))
      store:close()
    end
  end)

  -- No CRC misses a whole batch: the digest of a closed segment does.
  it("is not all: a closed segment cut where a batch ends is told, at each opening, and not cleaned", function()
    for _, copied in ipairs { false, true } do
      local n = make { index_interval_bytes = 100, cleanup_policy = "compact" }
      local file = path .. "/t-0/" .. disk.list(path .. "/t-0", ".log")[1]
      local bytes = disk.read(file)
      local batches = disk.batches(bytes)
      disk.write(file, bytes:sub(1, batches[#batches - 3].position))
      if copied then
        disk.copy(path, path .. "copy")
        path = path .. "copy"
      end
      for _ = 1, 2 do
        local store = support.open(path)
        local topic = store:topic "t"
        local _, whole = read_all(topic)
        assert.is_false(whole)
        assert.equal(1, topic:stats().partitions[0].corrupt_batches)
        assert.equal(n, topic:latest())
        topic:compact { force = true }
        assert.is_false(select(2, read_all(topic)))
        store:close()
      end
    end
  end)
end)

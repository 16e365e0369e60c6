-- open_partition of a damaged directory: a torn end is where the log ends; whatever else is wrong is told, at the latest when reading
-- comes to it, and never skipped in silence.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("open_partition of a damaged directory", function()
  local dir

  -- Two segments of three batches with three records each; a log of one segment with three batches.
  local function make(segments)
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { index_interval_bytes = 100 })
    for s = 1, segments do
      for b = 1, 3 do
        local batch = {}
        for i = 1, 3 do batch[i] = { key = "k", value = ("%d.%d.%d"):format(s, b, i) } end
        assert(topic:append_batch(batch))
      end
      if s < segments then topic:roll() end
    end
    store:close()
    dir = path .. "/t-0/"
    for _, name in ipairs(disk.list(dir, "sediment")) do os.remove(dir .. name) end          -- as if a broker had left it
    support.damaged()
  end
  after_each(support.cleanup)

  local function put(file, position, bytes)
    local all = disk.read(dir .. file)
    disk.write(dir .. file, all:sub(1, position) .. bytes .. all:sub(position + #bytes + 1))
  end

  local function batch(file, number) return disk.batches(disk.read(dir .. file))[number] end

  -- How many records come before the failure, its code ("" for none), and the log end offset.
  local function read(from, may_move)
    local partition, message, code = sediment.open_partition(dir)
    if not partition then
      assert.truthy(message:find(dir, 1, true), message)
      return 0, code
    end
    local count, failure = 0, ""
    local ok, err = pcall(function()
      for offset, _, value in partition:records { from = from } do
        local s, b, i = value:match "(%d)%.(%d)%.(%d)"
        local expected = (s - 1) * 9 + (b - 1) * 3 + i - 1
        assert(offset == expected or may_move and offset > expected, "record " .. value .. " at offset " .. offset)
        count = count + 1
      end
    end)
    if not ok then
      assert.is_table(err, tostring(err))
      assert.truthy(err.message:find(dir, 1, true), err.message)
      failure = err.code
    end
    local latest = partition:latest()
    partition:close()
    return count, failure, latest
  end

  it("tells of every changed byte of a base offset", function()
    for byte = 0, 7 do
      for number = 1, 3 do
        for _, file in ipairs { disk.log(0), disk.log(9) } do
          make(2)
          local at = batch(file, number).position + byte
          for _, bit in ipairs { 1, 2, 64, 128 } do
            local before = disk.read(dir .. file)
            local value = before:byte(at + 1)
            put(file, at, string.char(math.floor(value / bit) % 2 == 1 and value - bit or value + bit))
            local last = number == 3 and file == disk.log(9)
            local count, code, latest = read(nil, last and byte >= 4)
            -- Of a last batch that moved up within what a segment can span nothing tells; one with a negative offset is none.
            if not (last and code == "" and (byte >= 4 or bit == 128 and byte == 0)) then
              assert.equal("corrupt", code, ("byte %d of batch %d in %s, bit %d"):format(byte, number, file, bit))
            end
            if latest and number < 3 then assert.equal(18, latest) end
            assert(count < 18 or last)
            disk.write(dir .. file, before)
          end
        end
      end
    end
  end)

  it("tells of a changed size", function()
    for byte = 8, 11 do
      for _, segments in ipairs { 1, 2 } do
        make(segments)
        local file = disk.log(segments == 1 and 0 or 9)
        for number = 1, 2 do
          local before = disk.read(dir .. file)
          for _, value in ipairs { "\0", "\1", "\127", "\255" } do
            local at = batch(file, number).position + byte
            if before:sub(at + 1, at + 1) ~= value then
              put(file, at, value)
              local count, code, latest = read()
              local what = ("byte %d of batch %d, %d segments, value %d"):format(byte, number, segments, value:byte())
              assert.equal("corrupt", code, what)
              assert.equal(segments * 9, latest, what)
              assert.equal((segments - 1) * 9 + (number - 1) * 3, count, what)
              assert.equal(9 - number * 3, (read((segments - 1) * 9 + number * 3)), what)   -- what follows can be read still
              disk.write(dir .. file, before)
            end
          end
        end
      end
    end
  end)

  it("tells of a file with no batch in it", function()
    for _, bytes in ipairs { "no batch", ("text of some length "):rep(100), ("\255"):rep(500), "\0\0\0\0\0\0\0\0" .. ("?"):rep(100) } do
      make(1)
      disk.write(dir .. disk.log(0), bytes)
      assert.same({ 0, "corrupt" }, { read() })
    end
  end)

  it("tells of a segment that bears another's name", function()
    make(1)
    disk.write(dir .. disk.log(100), disk.read(dir .. disk.log(0)))
    local count, code = read()
    assert.same({ 9, "corrupt" }, { count, code })
    make(2)
    os.execute(("mv '%s' '%s'"):format(dir .. disk.log(9), dir .. disk.log(20)))
    assert.equal("corrupt", select(2, read()))
  end)

  it("tells of a closed segment that lacks what its index speaks of", function()
    make(2)
    for _, number in ipairs { 2, 3 } do
      local bytes = disk.read(dir .. disk.log(0))
      disk.write(dir .. disk.log(0), bytes:sub(1, batch(disk.log(0), number).position))
      assert.same({ number * 3 - 3, "corrupt", 18 }, { read() })
      disk.write(dir .. disk.log(0), bytes)
    end
    disk.write(dir .. disk.log(0), "")
    assert.same({ 0, "corrupt", 18 }, { read() })
  end)

  it("tells of a closed segment that its digest says was cut, where no index does", function()
    make(2)
    for _, extension in ipairs { ".index", ".timeindex" } do disk.write(dir .. ("%020d"):format(0) .. extension, "") end
    local bytes = disk.read(dir .. disk.log(0))
    for _, number in ipairs { 2, 3 } do
      disk.write(dir .. disk.log(0), bytes:sub(1, disk.batches(bytes)[number].position))
      assert.same({ number * 3 - 3, "corrupt", 18 }, { read() })
    end
  end)

  it("tells of a missing segment whose indexes are there", function()
    for _, base in ipairs { 9, 18 } do
      make(3)
      if base == 9 then disk.write(dir .. ("%020d.index"):format(base), "") end             -- the time index has an entry at least
      os.remove(dir .. disk.log(base))
      local partition, message, code = sediment.open_partition(dir)
      assert.same({ nil, "corrupt" }, { partition, code })
      assert.truthy(message:find(disk.log(base), 1, true), message)
      disk.write(dir .. disk.log(base) .. ".deleted", "")                                   -- a broker is deleting it
      partition = assert(sediment.open_partition(dir))
      partition:close()
    end
    make(3)
    os.remove(dir .. disk.log(0))                                                           -- the log may begin behind it
    assert.same({ 18, "", 27 }, { read() })
  end)

  it("ends where the end is torn, and says how much is left out", function()
    local function ends(bytes, count, left_out)
      disk.write(dir .. disk.log(0), bytes)
      assert.same({ count, "", count }, { read() })
      local partition = assert(sediment.open_partition(dir))
      assert.equal(left_out, partition:stats().partitions[0].truncated_bytes)
      partition:close()
    end
    make(1)
    local bytes = disk.read(dir .. disk.log(0))
    local third = batch(disk.log(0), 3).position
    for cut = third + 1, #bytes - 1, 3 do
      local left_out = #bytes:sub(1, cut):gsub("%z+$", "") - third
      ends(bytes:sub(1, cut), 6, math.max(left_out, 0))
      if cut < #bytes - 9 then ends(bytes:sub(1, cut) .. ("\0"):rep(#bytes + 100 - cut), 6, math.max(left_out, 0)) end
    end
    ends(bytes .. ("\0"):rep(1000), 9, 0)
    ends(bytes .. "rubbish", 9, 7)
    ends(bytes:sub(1, -5) .. "!" .. bytes:sub(-3), 6, #bytes:gsub("%z+$", "") - third)
    ends("", 0, 0)
    ends(("\0"):rep(5000), 0, 0)
    ends(bytes:sub(1, 40), 0, 40)                            -- the first write of a broker, on its way
    ends(bytes:sub(1, 70), 0, 70)
    ends(bytes:sub(1, 70) .. ("\0"):rep(1000), 0, 70)
  end)

  -- As Kafka's loading does, without a change: by the files' names.
  it("reads what an unfinished cleaning left as a broker would", function()
    dir = support.kafka_directory "spanning" .. "/"
    local function words() return support.words(assert(sediment.open_partition(dir)):records()) end
    local merged = dir .. disk.log(0)
    disk.write(merged .. ".deleted", "rubbish")
    disk.write(dir .. disk.log(3) .. ".cleaned", "half")
    disk.write(dir .. disk.log(3) .. ".swap", "forgotten with it")
    assert.equal("a=1 b=1 c=1 c- d=1 tail=1", words())
    os.remove(dir .. disk.log(3) .. ".cleaned")
    os.remove(dir .. disk.log(3) .. ".swap")
    disk.write(merged .. ".swap", disk.read(dir .. disk.log(3)))                            -- takes the place of both
    for _, extension in ipairs { ".index", ".timeindex" } do
      local bytes = disk.read(dir .. ("%020d"):format(3) .. extension)
      disk.write(dir .. ("%020d"):format(0) .. extension .. ".swap", bytes)
    end
    assert.equal("c=1 c- d=1 tail=1", words())
    os.remove(merged)
    os.remove(dir .. disk.log(3))
    local partition = assert(sediment.open_partition(dir))
    assert.equal("c=1 c- d=1 tail=1", support.words(partition:records()))
    assert.equal(merged .. ".swap", partition:segments()[1].path)
    assert(os.rename(merged .. ".swap", merged))                                            -- and so it goes on under its name
    assert.equal("c=1 c- d=1 tail=1", support.words(partition:records()))
    assert.equal(merged, partition:segments()[1].path)
    partition:close()
  end)

  it("wants a partition's directory", function()
    make(1)
    for _, path in ipairs { dir .. disk.log(0), dir .. "missing", (dir:gsub("t%-0/$", "")) } do
      local partition, message, code = sediment.open_partition(path)
      assert.same({ nil, "not_found" }, { partition, code }, message)
      assert.truthy(message:find(path:gsub("/$", ""), 1, true), message)
    end
  end)

  it("says which format from before Kafka 0.11 a message is of, however short", function()
    make(1)
    -- Offset 0, size, CRC, magic, attributes, no key, no value; version 1 has a timestamp.
    local version = {
      [0] = "\0\0\0\0\0\0\0\0\0\0\0\14\167\236\104\3\0\0\255\255\255\255\255\255\255\255",
      [1] = "\0\0\0\0\0\0\0\0\0\0\0\22\91\65\244\227\1\0" .. ("\255"):rep(16),
    }
    for magic, bytes in pairs(version) do
      for count = 1, 3 do
        disk.write(dir .. disk.log(0), bytes:rep(count))
        local partition, message, code = sediment.open_partition(dir)
        assert.same({ nil, "unsupported" }, { partition, code }, message)
        assert.truthy(message:find("format " .. magic, 1, true), message)
      end
    end
  end)

  it("takes zeros for the padding of a file where there are enough of them", function()
    make(2)
    local bytes = disk.read(dir .. disk.log(0))
    disk.write(dir .. disk.log(0), bytes .. ("\0"):rep(5000))
    assert.same({ 18, "", 18 }, { read() })
    disk.write(dir .. disk.log(0), bytes .. ("\0"):rep(11))
    assert.same({ 9, "corrupt", 18 }, { read() })
  end)
end)

-- A flipped bit in a base offset, which no checksum covers, wherever the batch stands and however the store is found: what is read is true
-- up to a failure that says corrupt; no record has another's offset, and none is left out in silence.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("a flipped bit in a base offset", function()
  after_each(support.cleanup)

  local SEGMENTS, BATCHES, RECORDS = 3, 3, 3             -- the last segment is the active one
  local PER_SEGMENT = BATCHES * RECORDS
  local TOTAL = SEGMENTS * PER_SEGMENT

  local function fill(topic)
    for n = 0, SEGMENTS * BATCHES - 1 do
      if n > 0 and n % BATCHES == 0 then topic:roll() end
      local batch = {}
      for i = 1, RECORDS do batch[i] = { key = "k", value = "value " .. n * RECORDS + i - 1 } end
      assert(topic:append_batch(batch))
    end
  end

  -- Bit `bit` of the first 8 bytes of a batch of a segment, both counted from 0.
  local function flip(folder, segment, batch, bit)
    local file = folder .. "/" .. disk.log(segment * PER_SEGMENT)
    local bytes = disk.read(file)
    local at = disk.batches(bytes)[batch + 1].position + 8 - math.floor(bit / 8)
    local old, mask = bytes:byte(at), 2 ^ (bit % 8)
    local new = math.floor(old / mask) % 2 == 1 and old - mask or old + mask
    disk.write(file, bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
  end

  -- True: reading said so. A last batch whose offset became negative is no batch any more: opening may have cut it, and tells that.
  local function check(partition, damaged_from, what)
    local count, last = 0, -1
    local ok, err = pcall(function()
      for offset, _, value in partition:records() do
        assert(value == "value " .. offset and offset > last, what .. ": read " .. value .. " at " .. offset)
        count, last = count + 1, offset
      end
    end)
    if ok then
      assert(count == TOTAL - RECORDS, what .. ": " .. count .. " records read, and no failure")
      assert(partition:stats().partitions[0].truncated_bytes > 0, what .. ": a batch is gone in silence")
      return false
    end
    assert(type(err) == "table" and err.code == "corrupt", what .. ": " .. tostring(err))
    assert(count == damaged_from, what .. ": " .. count .. " records read before " .. tostring(err))
    return true
  end

  local function each(run)
    for segment = 0, SEGMENTS - 1 do
      for batch = 0, BATCHES - 1 do
        for _, bit in ipairs { 0, 1, 2, 3, 4, 8, 31, 32, 62, 63 } do
          local what = string.format("segment %d, batch %d, bit %d", segment, batch, bit)
          run(segment, batch, bit, segment * PER_SEGMENT + batch * RECORDS, what)
        end
      end
    end
  end

  -- Makes a store, after what `before` does with its topic, leaves it as `leave` does, and opens a damaged copy each time.
  local function reopened(leave, before)
    local path = support.path()
    if before then before(path) end
    local store = support.open(path)
    fill(store:topic("t", {}))
    leave(store, path)
    each(function(segment, batch, bit, damaged_from, what)
      local copy = path .. "-copy"
      os.execute("rm -rf '" .. copy .. "'")
      disk.copy(path, copy)
      flip(copy .. "/t-0", segment, batch, bit)
      local again = support.open(copy)
      local topic = assert(again:topic "t")
      local told = check(topic, damaged_from, what)
      assert(topic:append("k", "goes on") >= TOTAL, what .. ": an offset is given twice")
      if told then check(topic, damaged_from, what .. ", after an append") end
      again:close()
    end)
  end

  it("after an orderly close", function()
    reopened(function(store) store:close() end)
  end)

  it("in a topic that was opened once before, and not written to", function()
    reopened(function(store) store:close() end, function(path)
      local store = support.open(path)
      store:topic("t", {}):latest()
      store:close()
    end)
  end)

  it("after an orderly close, the control page being lost", function()
    reopened(function(store, path)
      store:close()
      assert(os.remove(path .. "/t-0/sediment.control"))
    end)
  end)

  it("after the death of the process", function()
    reopened(function() end)
  end)

  it("after a loss of power", function()
    reopened(function(store, path)
      store:topic("t"):flush()
      disk.copy(path, path .. "-power")
      store:close()
      os.execute("rm -rf '" .. path .. "' && mv '" .. path .. "-power' '" .. path .. "'")
      assert(os.remove(path .. "/t-0/sediment.control") and os.remove(path .. "/sediment.control"))
    end)
  end)

  it("while the store is open", function()
    each(function(segment, batch, bit, damaged_from, what)
      local path = support.path()
      local store = support.open(path)
      local topic = store:topic("t", {})
      fill(topic)
      flip(path .. "/t-0", segment, batch, bit)
      check(topic, damaged_from, what)
      local live = assert(sediment.open_partition(path .. "/t-0"))
      check(live, damaged_from, what .. ", open_partition")
      live:close()
      store:close()
    end)
  end)
end)

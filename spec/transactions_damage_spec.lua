-- A changed byte in what transactional producers wrote: a committed reader sees no record of an aborted transaction, and misses none of a
-- committed one without a word; nor does compaction take the one for the other.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("damage among transactions", function()
  after_each(support.cleanup)

  local function read(partition, isolation)
    local list = {}
    local ok, err = pcall(function()
      for offset, key, value in partition:records { isolation = isolation } do
        list[#list + 1] = offset .. " " .. tostring(key) .. "=" .. tostring(value)
      end
    end)
    if not ok then assert.equal("corrupt", err.code, tostring(err)) end
    return list, ok
  end

  -- `list` is the beginning of `truth`; or, when it ended without an error, all of it but for what a torn end left out.
  local function check(what, partition, truth)
    local _, whole = read(partition, "uncommitted")
    local list, ok = read(partition, "committed")
    for i = 1, #list do
      if list[i] ~= truth[i] then error(("%s: record %d is %s instead of %s"):format(what, i, list[i], tostring(truth[i])), 0) end
    end
    if #list < #truth and ok and (not whole or partition:stats().partitions[0].truncated_bytes == 0) then
      error(("%s: %d of %d records, and no error"):format(what, #list, #truth), 0)
    end
  end

  -- The last value of each key, as far as the log could be read.
  local function last_values(list)
    local values = {}
    for _, line in ipairs(list) do
      local key, value = line:match "^%d+ (.-)=(.*)$"
      values[key] = value
    end
    return values
  end

  -- What no checksum covers and nothing tells of, in a directory of which cleaning may have taken records: a base offset.
  local function covered(batches, at)
    for _, b in ipairs(batches) do
      if at >= b.position and at < b.position + b.size then return at >= b.position + 8 end
    end
  end

  for _, name in ipairs { "transactions", "spanning" } do
    it("is told by open_partition: " .. name, function()
      local dir = support.kafka_directory(name)
      local partition = assert(sediment.open_partition(dir))
      local truth = read(partition, "committed")
      partition:close()
      for _, file in ipairs(disk.list(dir, ".log")) do
        local path = dir .. "/" .. file
        local bytes = disk.read(path)
        local batches = disk.batches(bytes)
        for at = 0, #bytes - 1 do
          for _, mask in ipairs(covered(batches, at) and { 1, 128, 255 } or {}) do
            local byte = bytes:byte(at + 1)
            local changed = mask == 255 and 255 - byte or math.floor(byte / mask) % 2 == 1 and byte - mask or byte + mask
            disk.write(path, bytes:sub(1, at) .. string.char(changed) .. bytes:sub(at + 2))
            partition = sediment.open_partition(dir)
            if partition then
              check(("%s, byte %d, mask %d"):format(file, at, mask), partition, truth)
              partition:close()
            end
          end
        end
        disk.write(path, bytes)
      end
    end)
  end

  it("is told by a topic that was imported, and its compaction touches nothing", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", { cleanup_policy = "compact" })
    assert(store:import("t", (support.kafka_directory "transactions"), { abort_open = true }))
    local topic = store:topic "t"
    for i = 1, 3 do topic:append("later" .. i, "x") end
    local truth = read(topic, "committed")
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    local batches = disk.batches(bytes)
    for at = 0, #bytes - 1, 5 do
      if covered(batches, at) then
        disk.copy(path, path .. at)
        disk.write(path .. at .. "/t-0/" .. disk.log(0), bytes:sub(1, at) .. string.char(255 - bytes:byte(at + 1)) .. bytes:sub(at + 2))
        store = support.open(path .. at)
        topic = store:topic "t"
        check("byte " .. at, topic, truth)
        topic:roll()
        local before = disk.read(path .. at .. "/t-0/" .. disk.log(0))
        local report = topic:compact { force = true }
        if report.corrupt > 0 then assert.equal(before, disk.read(path .. at .. "/t-0/" .. disk.log(0))) end
        local list, ok = read(topic, "committed")
        if ok then assert.same(last_values(truth), last_values(list)) end
        store:close()
        os.execute("rm -rf '" .. path .. at .. "'")
      end
    end
  end)

  it("is told where a marker was cut off at the end of a closed segment", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", { retention_ms = -1 })
    assert(store:import("t", (support.kafka_directory "transactions"), { abort_open = true }))
    store:close()
    local file = path .. "/t-0/" .. disk.log(0)
    local bytes = disk.read(file)
    local batches = disk.batches(bytes)
    disk.write(file, bytes:sub(1, batches[#batches].position))
    local list, ok = read(support.open(path):topic "t", "committed")
    assert.same({ "1 b=1", "2 plain=1", "5 b=2" }, list)
    assert.is_false(ok)
  end)
end)

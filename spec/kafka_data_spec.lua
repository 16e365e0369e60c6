-- Partition directories that Kafka itself wrote, read as Kafka reads them.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"
local line_of = require("kafka.listing").record

local DATA = debug.getinfo(1, "S").source:gsub("^@", ""):gsub("[^/]*$", "") .. "data/kafka/"

local built = {}                                              -- codecs that are built in
do
  local store = sediment.open(support.path(), { background = false })
  local topic = store:topic("t", {})
  for _, codec in ipairs { "gzip", "snappy", "lz4", "zstd" } do
    built[#built + 1] = topic:append_batch({ { key = "k" } }, { compression = codec }) and codec
  end
  store:close()
  support.cleanup()
end

local unpacked = support.kafka_directory

-- The data lines of a listing, and what it says of segments and the log.
local function listing_of(name)
  local lines, facts = {}, { segments = {} }
  for line in io.lines(DATA .. name) do
    if line:find "^%d+\t%-?%d+\tdata\t" then lines[#lines + 1] = line end
    local base, bytes = line:match "^# segment base=(%d+) bytes=(%d+)"
    if base then table.insert(facts.segments, { tonumber(base), tonumber(bytes) }) end
    facts.start, facts.finish = line:match "^# log start=(%d+) end=(%d+)"
  end
  return lines, facts
end

-- Compares what comes with what Kafka read; returns the number of records, and the code of the failure that ended them.
local function compare(partition, name, isolation)
  local lines, n = listing_of(name), 0
  local ok, err = pcall(function()
    for offset, key, value, timestamp, headers in partition:records { isolation = isolation } do
      n = n + 1
      assert(line_of(offset, key, value, timestamp, headers) == lines[n], "record " .. n)
    end
  end)
  if ok then assert.equal(#lines, n) end
  if not ok and type(err) ~= "table" then error(err, 0) end
  return n, not ok and err.code or nil
end

local function snapshot(dir)
  local list = {}
  for _, name in ipairs(disk.list(dir)) do
    local bytes = disk.read(dir .. "/" .. name)
    list[#list + 1] = name .. " " .. #bytes .. " " .. (#bytes < 100000 and bytes or "")
  end
  return table.concat(list, "\n")
end

describe("a partition directory written by Kafka", function()
  after_each(support.cleanup)

  for _, name in ipairs { "transactions", "spanning", "compacted", "broker-consumer-offsets", "broker-appendtime", "broker-killed",
                          "codecs" } do
    for _, isolation in ipairs { "committed", "uncommitted" } do
      it("is read as Kafka reads it: " .. name .. ", " .. isolation, function()
        local dir = unpacked(name)
        local before = snapshot(dir)
        local partition = assert(sediment.open_partition(dir))
        local n, code = compare(partition, name .. (isolation == "committed" and ".committed.tsv" or ".tsv"), isolation)
        if code then                                          -- a codec that is not built in
          assert.equal("unsupported", code)
          assert.is_true(#built < 4)
          assert.is_true(name ~= "transactions" and name ~= "spanning" and name ~= "broker-consumer-offsets")
        else assert(n > 0) end
        partition:close()
        assert.equal(before, snapshot(dir))                   -- nothing was written
      end)
    end

    it("has its bounds and segments: " .. name, function()
      local partition = assert(sediment.open_partition((unpacked(name))))
      local _, facts = listing_of(name .. ".tsv")
      assert.equal(facts.start, string.format("%d", partition:earliest()))
      assert.equal(facts.finish, string.format("%d", partition:latest()))
      local segments = partition:segments()
      assert.equal(#facts.segments, #segments)
      for i, s in ipairs(facts.segments) do assert.same(s, { segments[i].base_offset, segments[i].size }) end
      partition:close()
    end)
  end

  it("is found by time", function()
    local partition = assert(sediment.open_partition((unpacked "broker-consumer-offsets")))
    local list = support.collect(partition:records())
    for _, r in ipairs(list) do
      for _, ms in ipairs { r.timestamp - 1, r.timestamp, r.timestamp + 1 } do
        local expected
        for i = #list, 1, -1 do
          if list[i].timestamp >= ms then expected = list[i].offset end
        end
        assert.equal(expected, (partition:offset_for_time(ms)))
      end
    end
    partition:close()
  end)

  it("has the log start that the checkpoint beside it names", function()
    local dir, folder = unpacked "broker-consumer-offsets"
    local name = dir:match "([^/]+)%-0$"
    disk.write(folder .. "log-start-offset-checkpoint", "0\n2\nother 0 9\n" .. name .. " 0 3\n")
    local partition = assert(sediment.open_partition(dir))
    assert.equal(3, partition:earliest())
    assert.equal(3, (partition:records()()))
    assert.equal("offset_out_of_range", support.raised(function() partition:records { from = 2 } end).code)
    partition:close()
  end)

  it("is read although its tail is torn", function()
    local dir = unpacked "broker-consumer-offsets"
    local file = dir .. "/" .. disk.log(0)
    local bytes = disk.read(file)
    disk.write(file, bytes:sub(1, #bytes - 3))
    local partition = assert(sediment.open_partition(dir))
    local lines, n = listing_of "broker-consumer-offsets.committed.tsv", 0
    for offset, key, value, timestamp, headers in partition:records() do
      n = n + 1
      assert.equal(lines[n], line_of(offset, key, value, timestamp, headers))
    end
    assert(n > 0 and n < #lines)
    partition:close()
    assert.equal(#bytes - 3, #disk.read(file))
  end)
end)

-- Our own partitions, opened read-only while nobody has the store open: sediment.state tells what no file of Kafka's does.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

-- Two ways to read them; each gives a log with records, earliest, latest and stats, and what closes it.
local ways = {
  ["a read-only store"] = function(path)
    local store = assert(sediment.open(path, { readonly = true }))
    return assert(store:topic "t"), store
  end,
  ["open_partition"] = function(path)
    local partition = assert(sediment.open_partition(path .. "/t-0"))
    return partition, partition
  end,
}

for name, open in pairs(ways) do
  describe(name .. " of a closed store", function()
    local path, log, handle

    local function make(config, fill)
      path = support.path()
      local store = support.open(path)
      fill(store:topic("t", config))
      assert(store:close())
    end
    local function reopen() log, handle = open(path) end
    after_each(function()
      if handle then handle:close() end
      handle = nil
      support.cleanup()
    end)

    local function append_three(topic)
      for i = 1, 3 do assert(topic:append_batch { { key = "k", value = "v" .. i } }) end
    end
    local function cut(at)
      local file = path .. "/t-0/" .. disk.log(0)
      disk.write(file, disk.read(file):sub(1, at))
    end

    it("tells that the last segment was cut, wherever", function()
      make({}, append_three)
      support.damaged()
      local batches = disk.batches(disk.read(path .. "/t-0/" .. disk.log(0)))
      for at = batches[3].position + batches[3].size - 1, batches[2].position, -1 do
        cut(at)
        reopen()
        assert.equal(3, log:latest())
        local read = {}
        local err = support.raised(function()
          for _, _, value in log:records() do read[#read + 1] = value end
        end)
        assert.equal("corrupt", err.code)
        assert.matches(disk.log(0) .. " .*offset 3", err.message)
        assert.equal(at >= batches[3].position and "v1 v2" or "v1", table.concat(read, " "))
        assert.equal(at >= batches[3].position and 2 or 1, #support.collect(log:records { on_corrupt = "skip" }))
        handle:close()
      end
    end)

    it("reads what a partition that was closed in order has, to its end", function()
      make({}, append_three)
      reopen()
      assert.equal("k=v1 k=v2 k=v3", support.words(log:records()))
    end)

    it("keeps the log start when the store's checkpoints are gone", function()
      make({}, function(topic)
        append_three(topic)
        assert.equal(2, topic:delete_records(2))
        append_three(topic)
      end)
      os.remove(path .. "/log-start-offset-checkpoint")
      reopen()
      assert.equal(2, log:earliest())
      assert.equal(4, #support.collect(log:records()))
    end)

    it("knows the purge floor", function()
      make({ cleanup_policy = "compact", delete_retention_ms = 0, segment_bytes = 100 }, function(topic)
        topic:append("a", "v")
        topic:append("a", nil)
        topic:roll()
        topic:append("b", "v")
        topic:roll()
        for _ = 1, 2 do topic:compact { force = true, now = support.now + 1e6 } end
      end)
      reopen()
      assert.equal(1, log:stats().partitions[0].purge_floor)
    end)
  end)
end

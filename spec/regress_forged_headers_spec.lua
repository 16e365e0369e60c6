-- What stands behind a log, or inside a value, may look like batches without end: looking for the next valid one stays quick all the same.
local support = require "support"
local disk = require "disk"

local LOOK = [[
local sediment = require "sediment"
local bare = assert(sediment.open_partition(arg[1] .. "/t-0"))
local bare_end = bare:latest()
assert(bare:latest() == bare_end)
bare:close()
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic = assert(store:topic "t")
local n, failure = 0
local ok, err = pcall(function() for _ in topic:records() do n = n + 1 end end)
if not ok then failure = err.code end
topic:offset_for_time(1700000000000)
local stats = topic:stats().partitions[0]
print(bare_end, topic:latest(), n, failure, stats.truncated_bytes > 0, stats.corrupt_batches)
assert(store:close())
]]

describe("bytes that look like batches", function()
  after_each(support.cleanup)

  local path, log

  -- Ten records; what follows is done to the file of the closed store.
  local function make()
    path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { max_message_bytes = 10 ^ 7 })
    for i = 1, 10 do topic:append_batch { { key = "k", value = "v" .. i } } end
    store:close()
    log = path .. "/t-0/" .. disk.log(0)
  end

  local function look()
    local command = disk.script(path .. ".lua", LOOK)
    disk.run(("timeout 20 %s '%s' > '%s.out' 2>&1"):format(command, path, path))
    local words = {}
    for word in disk.read(path .. ".out"):gmatch "%S+" do words[#words + 1] = word end
    return words
  end

  -- Headers of batches that claim the offsets to come, one behind the other; each batch would have 256 * `pages` bytes.
  local function forged(count, pages)
    local header = disk.read(log):sub(1, 61)
    local one = "\0\0\0\0\0\0\1\0" .. "\0\0" .. string.char(pages) .. "\0" .. header:sub(13, 17) .. "\1\2\3\4" .. header:sub(22)
    return one:rep(count)
  end

  it("100 MiB of zeros behind the log are cut", function()
    make()
    disk.run(("truncate -s +100M '%s'"):format(log))
    assert.same({ "10", "10", "10", "nil", "true", "0" }, look())
  end)

  it("forged headers behind the log are cut", function()
    make()
    disk.write(log, disk.read(log) .. forged(100000, 255))
    assert.same({ "10", "10", "10", "nil", "true", "0" }, look())
  end)

  -- The first byte of its batch's records is damaged, so that the search for the next batch goes through the value.
  for _, last in ipairs { false, true } do
    it("forged headers in a huge value are passed" .. (last and ", the value being the last" or ""), function()
      make()
      local store = support.open(path)
      local topic = store:topic "t"
      local value = forged(100000, last and 255 or 3)
      assert.equal(10, topic:append_batch { { key = "k", value = value } })
      if not last then topic:append_batch { { key = "k", value = "last" } } end
      store:close()
      local bytes = disk.read(log)
      local at = bytes:find(value, 1, true)
      disk.write(log, bytes:sub(1, at - 4) .. "!" .. bytes:sub(at - 2))
      assert(os.remove((log:gsub("log$", "index"))))     -- so that opening reads it all
      local words = look()
      if last then
        assert.same({ "11", "11", "10", "corrupt", "false", "1" }, words)       -- an orderly close: nothing was torn, and nothing is cut
      else
        assert.same({ "12", "12", "10", "corrupt", "false", "1" }, words)
      end
    end)
  end
end)

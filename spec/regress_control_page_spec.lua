-- After an orderly close nothing depends on the control pages; and a log start that lies behind the log's end deletes nothing.
local support = require "support"
local disk = require "disk"

describe("after an orderly close", function()
  after_each(support.cleanup)

  local path, before

  local function everything(store)
    local list = {}
    for _, name in ipairs(store:topics()) do
      local topic = store:topic(name)
      local range = topic:earliest() .. "-" .. topic:latest()
      list[#list + 1] = name .. " " .. range .. " " .. #topic:segments() .. ": " .. support.words(topic:records())
      local stats = topic:stats().partitions[0]
      assert.same({ 0, 0 }, { stats.truncated_bytes, stats.corrupt_batches })
    end
    return table.concat(list, "\n")
  end

  before_each(function()
    path = support.path()
    local store = support.open(path)
    local cut = store:topic("cut", { segment_bytes = 400 })
    for i = 1, 40 do cut:append("k" .. i, "v" .. i) end
    cut:delete_records(7)
    local compacted = store:topic("compacted", { cleanup_policy = "compact", segment_bytes = 400 })
    for i = 1, 40 do compacted:append("k" .. i % 5, i % 7 > 0 and "v" .. i or nil) end
    compacted:compact { force = true }
    store:topic("staged", {}):append("k", "v")
    before = everything(store)
    store:close()
  end)

  -- All the fields, thinly, of the stage and the rest.
  local function flip_and_open(file)
    local bytes = disk.read(file)
    local positions = {}
    for at = 1, 700, 7 do positions[#positions + 1] = at end
    for at = 4000, #bytes, 1009 do positions[#positions + 1] = at end
    for _, at in ipairs(positions) do
      disk.write(file, bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + 1 + at % 255) % 256) .. bytes:sub(at + 1))
      local store = support.open(path)
      assert.equal(before, everything(store), "byte " .. at)
      assert.equal(1, store:topic("staged"):append("k", "w"), "byte " .. at)
      store:close()
      os.execute("rm -rf '" .. path .. "' && cp -rp '" .. path .. "-kept' '" .. path .. "'")
    end
  end

  it("a flipped byte in a control page changes nothing", function()
    disk.copy(path, path .. "-kept")
    flip_and_open(path .. "/cut-0/sediment.control")
    flip_and_open(path .. "/staged-0/sediment.control")
    flip_and_open(path .. "/sediment.control")
  end)

  it("control pages of garbage, too short, empty or missing change nothing", function()
    disk.copy(path, path .. "-kept")
    for _, content in ipairs { ("\255"):rep(20480), ("SDMCTRL\0"):rep(2560), "short", "" } do
      for _, folder in ipairs { "/", "/cut-0/", "/compacted-0/", "/staged-0/" } do
        disk.write(path .. folder .. "sediment.control", content)
      end
      local store = support.open(path)
      assert.equal(before, everything(store))
      store:close()
      os.execute("rm -rf '" .. path .. "' && cp -rp '" .. path .. "-kept' '" .. path .. "'")
    end
    os.execute("rm '" .. path .. "'/sediment.control '" .. path .. "'/*/sediment.control")
    assert.equal(before, everything(support.open(path)))
  end)

  it("a log start behind the end of the log puts the files aside and deletes none", function()
    local names = disk.list(path .. "/cut-0", ".log")
    local bytes = {}
    for _, name in ipairs(names) do bytes[name] = disk.read(path .. "/cut-0/" .. name) end
    disk.write(path .. "/log-start-offset-checkpoint", "0\n1\ncut 0 1000\n")
    local store = support.open(path)
    local cut = store:topic "cut"
    assert.same({ 1000, 1000, "" }, { cut:earliest(), cut:latest(), support.words(cut:records()) })
    assert(cut:stats().partitions[0].corrupt_batches > 0)
    assert.equal(1000, cut:append("k", "v"))
    support.now = support.now + 10 ^ 10
    assert(cut:alter { retention_ms = 1 })
    store:maintain()
    store:close()
    support.open(path):close()
    for name, old in pairs(bytes) do assert.equal(old, disk.read(path .. "/cut-0/" .. name .. ".stray"), name) end
  end)
end)

-- records{on_corrupt=}: reading on behind damage, and what is told of it.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("records{on_corrupt=}", function()
  after_each(support.cleanup)

  -- Batches of one record, their offset as value; three closed segments of four and an active one of two.
  local function make(config)
    local path = support.path()
    support.damaged()
    local store = support.open(path)
    local topic = store:topic("t", config or {})
    for i = 0, 13 do
      topic:append_batch { { key = "k" .. i, value = tostring(i) } }
      if i % 4 == 3 then topic:roll() end
    end
    store:close()
    return path
  end

  -- Changes the last byte of the batches with these base offsets.
  local function damage(path, ...)
    for _, offset in ipairs { ... } do
      local base = math.floor(offset / 4) * 4
      local file = path .. "/t-0/" .. disk.log(base)
      local bytes = disk.read(file)
      for _, b in ipairs(disk.batches(bytes)) do
        if b.base_offset == offset then
          local at = b.position + b.size
          bytes = bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + 1) % 256) .. bytes:sub(at + 1)
        end
      end
      disk.write(file, bytes)
    end
  end

  -- The values that come, and what on_corrupt is told, as text.
  local function read(source, options)
    local values, told, messages = {}, {}, {}
    options = options or {}
    options.on_corrupt = function(from, to, message)
      told[#told + 1] = from .. "-" .. to
      messages[#messages + 1] = message
    end
    for offset, _, value in source:records(options) do
      assert.equal(tostring(offset), value)
      values[#values + 1] = value
    end
    return table.concat(values, " "), table.concat(told, " "), messages
  end

  it("fails without it, as with \"fail\"", function()
    local path = make()
    damage(path, 5)
    local topic = support.open(path):topic "t"
    for _, options in ipairs { {}, { on_corrupt = "fail" } } do
      local last
      local err = support.raised(function()
        for offset in topic:records(options) do last = offset end
      end)
      assert.equal("corrupt", err.code)
      assert.equal(4, last)
    end
  end)

  it("leaves out damaged batches with \"skip\", and no other", function()
    local path = make()
    damage(path, 0, 5, 6, 11)
    local values = {}
    for offset in support.open(path):topic("t"):records { on_corrupt = "skip" } do values[#values + 1] = offset end
    assert.same({ 1, 2, 3, 4, 7, 8, 9, 10, 12, 13 }, values)
  end)

  it("tells a function which offsets are left out, and where the damage is", function()
    local path = make()
    damage(path, 0, 5, 6, 11)
    local values, told, messages = read(support.open(path):topic "t")
    assert.equal("1 2 3 4 7 8 9 10 12 13", values)
    assert.equal("0-1 5-7 11-12", told)
    assert.truthy(messages[2]:find("00000000000000000004.log", 1, true))
    assert.truthy(messages[2]:find("position %d+"))
  end)

  it("begins and ends inside damage", function()
    local path = make()
    damage(path, 5, 10)
    local topic = support.open(path):topic "t"
    local values, told = read(topic, { from = 5, to = 11 })
    assert.equal("6 7 8 9", values)
    assert.equal("5-6 10-11", told)
  end)

  it("passes a changed base offset and a changed size", function()
    for _, change in ipairs { 8, 9, 12 } do
      for batch = 1, 4 do
        local path = make()
        local file = path .. "/t-0/" .. disk.log(4)
        local bytes = disk.read(file)
        local at = disk.batches(bytes)[batch].position + change
        disk.write(file, bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + 32) % 256) .. bytes:sub(at + 1))
        local values, told = read(support.open(path):topic "t")
        local left_out = tostring(3 + batch)
        assert.equal(("0 1 2 3 4 5 6 7 8 9 10 11 12 13"):gsub(" " .. left_out .. " ", " "), values)
        assert.equal(left_out .. "-" .. 4 + batch, told)
      end
    end
  end)

  it("passes the end of a segment that was cut", function()
    local path = make()
    local file = path .. "/t-0/" .. disk.log(4)
    local bytes = disk.read(file)
    local batches = disk.batches(bytes)
    for _, size in ipairs { batches[3].position, batches[3].position + 20, 0 } do
      disk.write(file, bytes:sub(1, size))
      local values, told = read(support.open(path):topic "t")
      assert.equal(size == 0 and "0 1 2 3 8 9 10 11 12 13" or "0 1 2 3 4 5 8 9 10 11 12 13", values)
      assert.equal(size == 0 and "4-8" or "6-8", told)
      support.cleanup()
      path = make()
      file = path .. "/t-0/" .. disk.log(4)
    end
  end)

  -- A changed bit of a byte of the batch with that base offset.
  local function change(path, offset, byte, by)
    local file = path .. "/t-0/" .. disk.log(math.floor(offset / 4) * 4)
    local bytes = disk.read(file)
    for _, b in ipairs(disk.batches(bytes)) do
      local at = b.position + byte
      if b.base_offset == offset then bytes = bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + by) % 256) .. bytes:sub(at + 1) end
    end
    disk.write(file, bytes)
  end

  -- The offset that is found behind the first damage is damaged as well, and far beyond its segment.
  it("loses no segment to two damages side by side", function()
    local path = make()
    damage(path, 5)
    change(path, 6, 6, 1)
    local values, told = read(support.open(path):topic "t")
    assert.equal("0 1 2 3 4 7 8 9 10 11 12 13", values)
    assert.equal("5-7", told)
  end)

  it("keeps the good batch between damage and a changed base offset", function()
    local path = make()
    damage(path, 4)
    change(path, 6, 8, 64)
    local values = read(support.open(path):topic "t")
    assert.equal("0 1 2 3 5 7 8 9 10 11 12 13", values)
  end)

  it("goes on among records that are being appended", function()
    local path = make()
    damage(path, 12)
    local topic = support.open(path):topic "t"
    local last = topic:append("k", "14")
    assert.equal(14, last)
    local values, told = read(topic)
    assert.equal("0 1 2 3 4 5 6 7 8 9 10 11 13 14", values)
    assert.equal("12-13", told)
  end)

  -- An archive of logs: values that are batches, of offsets that would fit.
  local function make_archive(rolled)
    local source, archive = make(), support.path()
    local whole = disk.read(source .. "/t-0/" .. disk.log(0)) .. disk.read(source .. "/t-0/" .. disk.log(4))
    local store = support.open(archive)
    local topic = store:topic("t", {})
    local batches = disk.batches(whole)
    for i = 1, 7 do
      local b = batches[i + 1]
      topic:append_batch { { key = "archive", value = whole:sub(b.position + 1, b.position + b.size) } }
    end
    if rolled then topic:roll() end
    store:close()
    return archive
  end

  it("takes nothing from within a record, however much it looks like a batch", function()
    for _, rolled in ipairs { false, true } do
      local path = make_archive(rolled)
      local file = path .. "/t-0/" .. disk.log(0)
      local bytes = disk.read(file)
      local at = assert(select(3, bytes:find("archive.-archive.-()archive")))
      disk.write(file, bytes:sub(1, at - 1) .. "A" .. bytes:sub(at + 1))
      local topic = support.open(path):topic "t"
      for from = 0, 6 do
        for _, on_corrupt in ipairs { "skip", "fail" } do
          local found = 0
          pcall(function()
            for _, key in topic:records { from = from, on_corrupt = on_corrupt } do
              assert.equal("archive", key)
              found = found + 1
            end
          end)
          if on_corrupt == "skip" then assert.equal(from <= 2 and 6 - from or 7 - from, found) end
        end
      end
    end
  end)

  it("serves a bare directory and a compacted topic alike", function()
    local path = make { cleanup_policy = "compact" }
    damage(path, 2, 9)
    local partition = assert(sediment.open_partition(path .. "/t-0"))
    local values, told = read(partition)
    assert.equal("0 1 3 4 5 6 7 8 10 11 12 13", values)
    assert.equal("2-3 9-10", told)
    partition:close()
  end)

  it("lets the function end the loop", function()
    local path = make()
    damage(path, 5)
    local topic = support.open(path):topic "t"
    local err = support.raised(function()
      for _ in topic:records { on_corrupt = function(from) error("at " .. from, 0) end } do end
    end)
    assert.equal("at 5", err)
  end)

  it("keeps the function while the loop lasts", function()
    local path = make()
    damage(path, 5)
    local topic, count = support.open(path):topic "t", 0
    local next = topic:records { on_corrupt = function() count = count + 1 end }
    collectgarbage()
    collectgarbage()
    repeat until not next()
    assert.equal(1, count)
  end)

  it("refuses what is neither", function()
    local topic = support.topic()
    for _, wrong in ipairs { "ignore", 5, true } do
      local err = tostring(support.raised(topic.records, topic, { on_corrupt = wrong }))
      assert.truthy(err:find('on_corrupt: "fail", "skip" or a function expected', 1, true))
    end
  end)
end)

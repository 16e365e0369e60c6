-- A disk without a free byte: appends say so, reads go on, and whatever deletes makes room; nothing that was acknowledged is lost.
local support = require "support"
local disk = require "disk"

describe("on a full disk", function()
  local folder, path, mounted

  before_each(function()
    folder = support.path() .. "-disk"
    path = folder .. "/s"
    mounted = disk.run("mkdir '" .. folder .. "' && mount -t tmpfs -o size=2m tmpfs '" .. folder .. "' 2> /dev/null") == 0
  end)
  after_each(function()
    local mount = mounted and folder
    support.cleanup(mount and function() disk.run("umount -l '" .. mount .. "'") end)
  end)

  local CONFIG = { segment_bytes = 100000, retention_ms = -1, file_delete_delay_ms = 60000 }
  local kept                                             -- what was acknowledged: value by offset

  local function append(topic, value)
    local offset, message, code = topic:append("k", value)
    if offset then kept[offset] = value else assert(code == "disk_full", message) end
    return offset ~= nil
  end

  -- To the last byte, by big records, then small ones, then something else.
  local function fill(topic, filler)
    for _, size in ipairs { 20000, 700, 10 } do
      while append(topic, ("x"):rep(size)) do end
    end
    disk.run("cat /dev/zero > '" .. folder .. "/" .. (filler or "filler") .. "' 2> /dev/null")
    assert.equal("disk_full", select(3, topic:append("k", ("x"):rep(20000))))
  end

  local function check(topic)
    local seen, first = {}, topic:earliest()
    for offset, _, value in topic:records() do
      assert(kept[offset] == value, offset .. " is not what was appended")
      seen[offset] = true
    end
    for offset in pairs(kept) do assert(offset < first or seen[offset], offset .. " was acknowledged and is lost") end
    return topic:latest()
  end

  -- A store with a filled topic t, other records in u, on a disk with nothing left.
  local function full()
    if not mounted then return pending "needs the right to mount" end
    kept = {}
    local store = support.open(path)
    local t = assert(store:topic("t", CONFIG))
    local u = assert(store:topic("u", CONFIG))
    for i = 1, 300 do assert(u:append("k" .. i, ("y"):rep(1000))) end
    fill(t)
    check(t)
    return store, t, u
  end

  local function works_again(store, t)
    assert(append(t, "after"), "an append after there was room again")
    check(t)
    assert(store:close())
    store = support.open(path)
    t = store:topic "t"
    check(t)
    assert(append(t, "reopened"))
    return store
  end

  it("retain makes room", function()
    local store, t = full()
    if not store then return end
    assert(t:alter { retention_bytes = 300000 })
    assert(t:retain().segments > 5)
    works_again(store, t)
  end)

  it("maintain makes room", function()
    local store, t = full()
    if not store then return end
    assert(t:alter { retention_ms = 1000 })
    support.now = support.now + 1001
    local report = assert(store:maintain())
    assert.equal(0, report.failed, report.reason)
    assert(report.segments > 5)
    works_again(store, t)
  end)

  it("delete_records makes room", function()
    local store, t = full()
    if not store then return end
    local before = t:latest() - 3
    assert.equal(before, t:delete_records(before))
    assert(t:retain().segments > 5)
    assert.equal(before, t:earliest())
    store = works_again(store, t)
    assert.equal(before, store:topic("t"):earliest())
  end)

  it("delete_topic makes room", function()
    local store, t = full()
    if not store then return end
    assert(store:delete_topic "u")
    store:maintain { now = support.now + 60000 }
    works_again(store, t)
  end)

  it("a topic may be made, and is empty", function()
    local store, t = full()
    if not store then return end
    local new = assert(store:topic("new", {}))
    assert.equal(0, new:latest())
    assert.equal("disk_full", select(3, new:append_batch { { key = "k", value = ("z"):rep(100000) } }))
    check(t)
  end)

  it("partitions that have no room are not there, and the others are as they were", function()
    local store, t, u = full()
    if not store then return end
    assert.equal("disk_full", select(3, u:alter { partitions = 40 }))
    assert.equal("disk_full", select(3, store:topic("u", { partitions = 40 })))
    assert.equal("disk_full", select(3, store:topic("v", { partitions = 40 })))
    assert.same({ "t", "u" }, store:topics())
    assert.equal(1, u:partitions())
    assert.same({ "t-0", "u-0" }, disk.list(path, "-"))
    assert(store:topic "u")
    assert.equal(300, assert(store:table "u"):count())
    assert(store:stats().topics.u)
    assert(u:retain())
    check(t)
    assert(store:close())
    store = support.open(path)
    assert.equal(300, store:topic("u"):latest())
  end)

  it("a compaction fails and leaves everything as it was", function()
    if not mounted then return pending "needs the right to mount" end
    kept = {}
    local store = support.open(path)
    local c = assert(store:topic("c", { cleanup_policy = "compact", segment_bytes = 300000 }))
    for i = 1, 1000 do assert(append(c, ("x"):rep(1000) .. i)) end
    c:roll()
    local t = assert(store:topic("t", CONFIG))
    local kept_in_c = kept
    kept = {}
    fill(t)
    local report, message, code = c:compact { force = true }
    if not report then assert(code == "disk_full", message) end
    assert.equal(0, #disk.list(path .. "/c-0", ".cleaned"))
    assert.equal(0, #disk.list(path .. "/c-0", ".swap"))
    kept = kept_in_c
    local last
    for offset, _, value in c:records() do
      assert(kept[offset] == value)
      last = offset
    end
    assert.equal(999, last)
  end)

  it("close and open keep what is staged", function()
    local store, t = full()
    if not store then return end
    local last = check(t)
    assert(store:close())
    disk.run("cat /dev/zero > '" .. folder .. "/more' 2> /dev/null")     -- the room that closing gave back
    store = support.open(path)
    t = assert(store:topic "t")
    assert.equal(last, check(t))
    assert(not append(t, ("x"):rep(70000)))
    assert.equal(300, store:topic("u"):latest())
    assert(os.remove(folder .. "/more"))
    works_again(store, t)
  end)

  it("retention needs no reserve", function()
    if not mounted then return pending "needs the right to mount" end
    kept = {}
    local store = support.open(path)
    local t = assert(store:topic("t", { segment_bytes = 100000, retention_ms = 1000 }))
    fill(t)
    assert(store:close())
    disk.run("cat /dev/zero > '" .. folder .. "/more' 2> /dev/null")
    store = support.open(path)
    t = assert(store:topic "t")
    check(t)
    support.now = support.now + 1001
    local report = assert(store:maintain())
    assert.equal(0, report.failed, report.reason)
    assert(report.segments > 5)
    works_again(store, t)
  end)

  it("a killed process leaves its staged records to the next", function()
    if not mounted then return pending "needs the right to mount" end
    kept = {}
    local script = disk.script(support.path(), [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end }))
local topic = store:topic("t", { segment_bytes = 100000, retention_ms = -1 })
io.stdout:setvbuf "no"
local function append(value)
  local offset, message, code = topic:append("k", value)
  assert(offset or code == "disk_full", message)
  if offset then print(offset, value) end
  return offset
end
while append(("x"):rep(20000)) do end
os.execute("cat /dev/zero > '" .. arg[2] .. "/filler' 2> /dev/null")
for i = 1, 20 do append("small" .. i) end
os.execute "kill -9 $PPID"
]])
    local out = support.path()
    disk.run(("%s '%s' '%s' > '%s' 2>&1"):format(script, path, folder, out))
    local last
    for offset, value in disk.read(out):gmatch "(%d+)\t(%w+)\n" do
      last = math.floor(tonumber(offset))
      kept[last] = value
    end
    assert(kept[last]:find "small", "something was staged")
    local store = support.open(path)
    local t = assert(store:topic "t")
    assert.equal(last + 1, check(t))
    assert(os.remove(folder .. "/filler"))
    works_again(store, t)
  end)
end)

-- A topic is deleted, and its folders cannot go yet: the store opens all the same, says so when it is maintained, and ends it when it can.
local support = require "support"
local disk = require "disk"

local function folders(path)
  local list = {}
  for _, name in ipairs(disk.list(path, "t-")) do
    if name:find "^t%-" then list[#list + 1] = name end
  end
  return list
end

describe("a deletion that cannot be ended", function()
  local path, mounted
  after_each(function()
    support.cleanup(function() if mounted then disk.run("umount -l '" .. mounted .. "'") end end)
    mounted = nil
  end)

  -- Of a store's folders one is a disk of its own: it can be neither renamed nor removed.
  local function with_a_mount()
    path = support.path()
    local store = support.open(path)
    store:topic("t", { partitions = 3, file_delete_delay_ms = 0 })
    store:topic("other", {}):append("k", "v")
    store:close()
    local place = path .. "/t-1"
    local command = "cp -r '%s' '%s.copy' && mount -t tmpfs -o size=1m tmpfs '%s' 2> /dev/null && cp '%s.copy'/* '%s' && rm -r '%s.copy'"
    if disk.run((command:gsub("%%s", place))) ~= 0 then return false end
    mounted = place
    return true
  end

  it("keeps neither the store nor other topics from opening, nor the rest of it from going", function()
    if not with_a_mount() then return pending "needs the right to mount" end
    local store = support.open(path)
    assert.is_true(store:delete_topic "t")
    for _ = 1, 2 do
      assert.same({ "other" }, store:topics())
      assert.equal(1, store:topic("other"):latest())
      local report = store:maintain()
      assert.equal(1, report.failed)
      assert.matches("t%-1", report.reason)
      assert.same({ "t-1" }, folders(path))
      assert(store:close())
      store = support.open(path)
    end
    assert.is_nil((store:topic("t", {})))
    assert.equal(0, disk.run("umount '" .. mounted .. "'"))
    mounted = nil
    assert.equal(0, store:maintain().failed)
    assert.same({}, folders(path))
    assert(store:topic("t", {}))
  end)

  it("does not depend on defaults that contradict the topic's configs", function()
    path = support.path()
    local store = support.open(path)
    store:topic("t", { min_compaction_lag_ms = 1000, file_delete_delay_ms = 0 })
    store:close()
    store = support.open(path, { defaults = { max_compaction_lag_ms = 10 } })
    assert.is_true(store:delete_topic "t")
    assert.equal(0, store:maintain().failed)
    assert.same({}, folders(path))
    store:close()
    store = support.open(path)
    assert.same({}, store:topics())
  end)
end)

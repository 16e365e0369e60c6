-- Symbolic links in a store's folder. Nothing is written through one that stands in a file's place, whoever put it there. A partition's
-- folder may be one: some keep a topic on another disk so; what goes with the topic is what a partition can have, and not what else lies
-- there.
local support = require "support"
local disk = require "disk"

local USE = [[
local sediment = require "sediment"
local store = sediment.open(arg[1], { background = false, clock = function() return 1700000000000 end })
local topic = store and store:topic("t", {})
if topic then
  topic:append("k", "v", { sync = true })
  topic:delete_records(2)
  topic:roll()
  topic:compact { force = true }
  store:maintain { now = 1700000000000 + 10 ^ 10 }
  store:topic("new", { partitions = 2 })
  topic:append("k", "v")
end
if store then store:close() end
print "done"
]]

describe("a symbolic link", function()
  local path

  before_each(function() path = support.path() end)
  after_each(support.cleanup)

  local function link(to, from) assert.equal(0, disk.run(("ln -sfn '%s' '%s'"):format(to, from))) end

  -- A closed store whose partition lies in another folder, to which a link leads; the folder that it lies in.
  local function move_partition()
    local elsewhere = support.foreign()
    local store = support.open(path)
    store:topic("t", { file_delete_delay_ms = 0 }):append("k", "v")
    store:close()
    assert.equal(0, disk.run(("mv '%s/t-0' '%s'"):format(path, elsewhere)))
    link(elsewhere .. "t-0", path .. "/t-0")
    return elsewhere
  end

  it("in the place of a file is not written through", function()
    local command = disk.script(path .. ".lua", USE)
    support.every_kind_of_file(path)
    local places = { "sediment.topics.tmp", "recovery-point-offset-checkpoint.tmp", "t-0/sediment.swap.tmp", "t-0/partition.metadata.tmp" }
    for _, folder in ipairs { "", "t-0/" } do
      for _, name in ipairs(disk.list(path .. "/" .. folder)) do
        if name ~= "t-0" then places[#places + 1] = folder .. name end
      end
    end
    assert(#places > 20, "every kind of file")
    for _, place in ipairs(places) do
      local copy, victim = path .. "-copy", path .. "-victim"
      os.execute("rm -rf '" .. copy .. "'")
      disk.copy(path, copy)
      local bytes = disk.exists(copy .. "/" .. place) and disk.read(copy .. "/" .. place) or "precious"
      disk.write(victim, bytes)
      link(victim, copy .. "/" .. place)
      assert.equal(0, disk.run(("%s '%s' > '%s.out' 2>&1"):format(command, copy, path)), disk.read(path .. ".out"))
      assert(disk.read(victim) == bytes, place .. " was written through")
    end
  end)

  it("may stand for a partition's folder, and what is not the partition's stays when it is deleted", function()
    local elsewhere = move_partition()
    disk.write(elsewhere .. "t-0/notes.txt", "mine")
    local store = support.open(path)
    local topic = store:topic "t"
    assert.equal(1, topic:append("k", "w", { sync = true }))
    assert.equal("k=v k=w", support.words(topic:records()))
    assert(store:delete_topic "t")
    local report = store:maintain()
    assert.equal(1, report.failed)
    assert.matches("notes%.txt", report.reason)
    assert.same({ "notes.txt" }, disk.list(elsewhere .. "t-0"))
    assert.equal(0, store:maintain().failed)
  end)

  it("to a partition's folder goes with the topic", function()
    local elsewhere = move_partition()
    local store = support.open(path)
    assert(store:delete_topic "t")
    assert.equal(0, store:maintain().failed)
    assert.same({}, disk.list(path, "-delete"))
    assert.same({}, disk.list(elsewhere .. "t-0"))
  end)

  it("that looks like a deleted partition's folder leads to no file that goes but a partition's", function()
    local elsewhere = support.foreign()
    support.open(path):close()
    for _, name in ipairs { "sediment.deleted", "precious", ".profile", "1.log" } do disk.write(elsewhere .. name, "mine") end
    link(elsewhere, path .. "/x-0." .. ("0"):rep(32) .. "-delete")
    local store = support.open(path)
    store:maintain()
    assert.same({ ".profile", "1.log", "precious" }, disk.list(elsewhere))
  end)
end)

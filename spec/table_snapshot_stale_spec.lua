-- Snapshots of state tables that a restart does not go on from, as the table could not have: the deletions that they have missed are told,
-- and what is damaged is not believed.
local support = require "support"
local disk = require "disk"
local of = require "state"

local raised, purge, contents, listener, put = support.raised, support.purge, of.contents, of.listener, of.put
local function number(value) return tonumber(value) end
local CONFIG = of.CONFIG

describe("the snapshot of a state table", function()
  local path, store, topic

  before_each(function() path, store, topic = of.begin() end)
  after_each(support.cleanup)

  local function open(options) return of.open(store, options) end
  local function leave(options) of.leave(store, options) end
  local function files() return of.snapshots(path) end

  local function reopen() store, topic = of.reopen(path, store) end

  describe("is not gone on from", function()
    local function origin(options)
      local state = open(options)
      local stats = state:stats()
      return stats.origin, stats.note_code, stats.note, state
    end

    it("when a deletion was cleaned away that it has not seen: no key comes back", function()
      put(topic, "a=1 b=1")
      leave()
      put(topic, "a- c=1")
      purge(topic)
      assert.equal("b=1 c=1", support.words(topic:records()))
      reopen()
      local options, heard = listener()
      local from, code, note, state = origin(options)
      assert.same({ "log", "resync" }, { from, code })
      assert.matches("below the purge floor", note)
      assert.is_nil(state:get "a")
      assert.equal("b=1 c=1", contents(state))
      assert.equal("b:nil>1 c:nil>1 a:1>nil", heard())
      assert(state:close())
      assert.equal("snapshot", (origin()))
    end)

    it("when the log start has moved", function()
      topic:alter { cleanup_policy = "compact,delete" }
      put(topic, "a=1 b=1")
      leave()
      put(topic, "c=1")
      topic:delete_records(1)
      local from, code, note, state = origin()
      assert.same({ "log", "resync" }, { from, code })
      assert.matches("older than the log start, which has moved from 0 to 1", note)
      assert.equal("b=1 c=1", contents(state))
    end)

    it("when it is of another schema, or has records where values are asked for", function()
      put(topic, "a=1")
      leave { schema = "1" }
      local from, code, note = origin { schema = "2" }
      assert.same({ "log", "unsupported" }, { from, code })
      assert.matches("has another schema: plain 1, and not plain 2", note)
      assert.equal("unsupported", select(2, origin { schema = "1", decode = number }))
      assert.equal("snapshot", (origin { schema = "1" }))
    end)

    it("when the store was put back to an older state", function()
      put(topic, "a=1")
      store:close()
      disk.copy(path, path .. "-older")
      store = support.open(path)
      topic = store:topic "t"
      put(topic, "b=1")
      leave()
      local name = files()[1]
      store:close()
      os.rename(path .. "/" .. name, path .. "-older/" .. name)
      store = support.open(path .. "-older")
      topic = store:topic "t"
      local from, code, note, state = origin()
      assert.same({ "log", "corrupt" }, { from, code })
      assert.matches("is ahead of the log", note)
      assert.equal("a=1", contents(state))
    end)

    it("when it is another topic's of that name", function()
      put(topic, "a=1")
      leave()
      local bytes = disk.read(path .. "/" .. files()[1])
      store:delete_topic "t"
      assert.same({}, files())
      topic = store:topic("t", CONFIG)
      put(topic, "b=1")
      assert.equal("b=1", contents(open()))
      leave()
      disk.write(path .. "/" .. files()[1], bytes)
      local from, code, note, state = origin()
      assert.same({ "log", "corrupt" }, { from, code })
      assert.matches("it is of another topic", note)
      assert.equal("b=1", contents(state))
    end)

    it("when it is of a version to come", function()
      put(topic, "a=1")
      leave()
      local name = path .. "/" .. files()[1]
      local bytes = disk.read(name)
      disk.write(name, bytes:sub(1, 11) .. "\2" .. bytes:sub(13))
      local from, code, note = origin()
      assert.same({ "log", "unsupported" }, { from, code })
      assert.matches("it has version 2, and not 1", note)
    end)

    it("with any byte changed, or cut anywhere", function()
      put(topic, "a=1 b=2")
      leave()
      local name = path .. "/" .. files()[1]
      local bytes = disk.read(name)
      local function rebuilt(damaged)
        disk.write(name, damaged)
        local from, code, _, state = origin()
        if contents(state) ~= "a=1 b=2" then return "wrong" end
        return from == "log" and (code == "corrupt" or code == "unsupported") and "found" or "missed"
      end
      for i = 1, #bytes do
        for _, by in ipairs { 1, 128, 255 } do
          assert.equal("found", rebuilt(bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + by) % 256) .. bytes:sub(i + 1)))
        end
        assert.equal("found", rebuilt(bytes:sub(1, i - 1)))
      end
      assert.equal("found", rebuilt(bytes .. "\0"))
      disk.write(name, bytes)
      assert.equal("snapshot", (origin()))
    end)

    it("when something else has its name", function()
      put(topic, "a=1")
      leave()
      local name = path .. "/" .. files()[1]
      os.remove(name)
      os.execute("mkdir '" .. name .. "'")
      local from, code, note, state = origin()
      assert.same({ "log", "io" }, { from, code })
      assert.matches("no regular file", note)
      put(topic, "b=1")
      state:update()
      assert.is_nil((state:snapshot()))
      assert.is_true((state:close()))
      os.execute("rmdir '" .. name .. "'")
    end)
  end)

  it("starts over when a deletion goes that the table has not read, while it is open", function()
    put(topic, "a=1 b=1 c=1")
    leave()
    local options, heard = listener()
    local state, quiet = open(options), open()
    heard()
    put(topic, "a- c=2")
    purge(topic)
    assert.equal(2, state:update())
    assert.equal("c:1>2 a:1>nil", heard())
    assert.equal(2, quiet:update())
    assert.equal("b=1 c=2", contents(quiet))
    assert.equal("b=1 c=2", contents(state))
  end)

  it("tells of what the log has no more before another one takes its place, and of another schema, too", function()
    local copy, failing = {}, false
    local function keep(key, new)
      if failing and new == nil then error("the copy is down", 0) end
      copy[key] = new
    end
    put(topic, "a=1 b=1 c=1")
    leave { on_change = keep }
    put(topic, "a- d=1")
    purge(topic)
    failing = true
    assert.equal("the copy is down", raised(open, { on_change = keep, snapshot_every = 1 }))
    failing = false
    local state = open { on_change = keep, snapshot_every = 1 }
    assert.equal("resync", state:stats().note_code)
    assert.same({ b = "1", c = "1", d = "1" }, copy)
    state:close()
    put(topic, "b-")
    purge(topic)
    state = open { on_change = keep, schema = "another" }
    assert.equal("unsupported", state:stats().note_code)
    assert.same({ c = "1", d = "1" }, copy)
    state:close()
  end)
end)

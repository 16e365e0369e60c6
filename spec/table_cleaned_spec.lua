-- State tables of topics that are compacted under them: a deletion that went before it was read is found, and nothing is older than it
-- should be.
local support = require "support"
local state_spec = require "state"

local raised = support.raised

local contents, listener, put = state_spec.contents, state_spec.listener, state_spec.put

describe("a state table", function()
  local topic, store

  before_each(function()
    topic, store = support.topic { cleanup_policy = "compact", segment_bytes = 1048576, delete_retention_ms = 0 }
  end)
  after_each(support.cleanup)

  describe("that missed a deletion", function()
    it("drops the keys that vanished and applies what is new", function()
      local options, heard = listener()
      put(topic, "a=1 b=1 c=1")
      local state = store:table("t", options)
      heard()
      put(topic, "b- c=2 d=1")
      support.purge(topic)
      assert(topic:stats().partitions[0].purge_floor >= 3)
      assert.equal(3, state:update())
      assert.equal("a=1 c=2 d=1", contents(state))
      assert.equal("c:1>2 d:nil>1 b:1>nil", heard())
      assert.equal(3, state:count())
      assert.equal(0, state:update())
    end)

    it("does it again when on_change raised in between", function()
      local bad, gone = false, {}
      put(topic, "a=1 b=1 c=1")
      local state = store:table("t", { on_change = function(key, new)
        if bad and new then error("bad", 0) end
        if not new then gone[#gone + 1] = key end
      end })
      put(topic, "b- c=2")
      support.purge(topic)
      bad = true
      assert.equal("bad", raised(state.update, state))
      assert.equal("a=1 b=1 c=2", contents(state))
      bad = false
      assert(state:update())
      assert.equal("a=1 c=2", contents(state))
      assert.same({ "b" }, gone)
    end)

    it("is not told again of what on_change raised at", function()
      local bad, heard = false, {}
      put(topic, "a=1 b=1 c=1 d=1")
      local state = store:table("t", {
        decode = function(value) return { value } end,              -- each differs from all others
        on_change = function(key, new)
          heard[#heard + 1] = key .. (new and new[1] or "-")
          if bad then error("bad", 0) end
        end,
      })
      put(topic, "a- b- c=2 d=2 e=2")
      support.purge(topic)
      bad, heard = true, {}
      for n = 1, 5 do
        assert.equal("bad", raised(state.update, state))
        assert.equal(n, #heard)
      end
      assert.equal(0, state:update())
      table.sort(heard)
      assert.equal("a- b- c2 d2 e2", table.concat(heard, " "))
    end)

    it("equals a fresh one, whatever happened", function()
      math.randomseed(7)
      local state = store:table "t"
      for round = 1, 60 do
        for _ = 1, math.random(1, 8) do
          local key = "k" .. math.random(1, 12)
          topic:append(key, math.random() < 0.6 and tostring(math.random(1, 99)) or nil)
        end
        if math.random() < 0.3 then support.purge(topic) end
        if math.random() < 0.6 then
          assert(state:update())
          assert.equal(contents(store:table "t"), contents(state), "round " .. round)
          local n = 0
          for _ in state:pairs() do n = n + 1 end
          assert.equal(n, state:count())
        end
      end
    end)
  end)

  describe("while the topic is compacted under it", function()
    local state, hook

    -- Once it is set, runs at the next value that is read, in the middle of the reading, and once only.
    local function decode(value)
      local run = hook
      hook = nil
      if run then run() end
      return value
    end

    local function compact(times)
      topic:roll()
      for _ = 1, times or 1 do assert(topic:compact { force = true }) end
    end

    -- Each in a segment of its own, as a reader holds the one that it stands in.
    local function put_apart(words)
      for word in words:gmatch "%S+" do
        put(topic, word)
        topic:roll()
      end
    end

    before_each(function() hook = nil end)

    it("misses no deletion that goes before it is read", function()
      put_apart "k=1"
      state = store:table("t", { decode = decode })
      put_apart "x=1 k-"
      hook = function() compact(2) end
      assert(state:update())
      assert.equal(2, topic:stats().partitions[0].purge_floor)
      assert.equal("x=1", contents(state))
    end)

    it("misses none when it was cut short in between", function()
      put_apart "k=1"
      state = store:table("t", { decode = decode })
      put_apart "x=1 k- y=1 z=1"
      local function bad() error("bad", 0) end
      hook = function()
        compact(2)
        hook = function() hook = bad end               -- at y; at z the position is past the deletion
      end
      assert.equal("bad", raised(state.update, state))
      assert.equal(4, state:offset())
      assert(state:update())
      assert.equal("x=1 y=1 z=1", contents(state))
    end)

    it("misses none that came while it started over", function()
      local both = store:topic("both", { cleanup_policy = "compact,delete", delete_retention_ms = 0, segment_bytes = 100 })
      topic = both
      put_apart "gone=1 k=1"
      state = store:table("both", { decode = decode })
      put_apart "x=1"
      both:delete_records(1)
      hook = function()
        put_apart "y=1 k- z=1"
        compact()
        hook = compact                                 -- at y, behind the end that starting over had: k's last record goes
      end
      assert(state:update())
      assert.equal(4, both:stats().partitions[0].purge_floor)
      assert.equal("x=1 y=1 z=1", contents(state))
    end)

    it("has every key at the opening", function()
      put_apart "a=1 b=1"
      hook = function() put_apart "b=2" compact() end
      assert.equal("a=1 b=2", contents(store:table("t", { decode = decode })))
    end)

    it("has every key when it starts over, and tells of none that is gone", function()
      local options, heard = listener { decode = decode }
      topic = store:topic("both", { cleanup_policy = "compact,delete" })
      put_apart "gone=1 b=1"
      state = store:table("both", options)
      put_apart "a=1 b=2"
      topic:delete_records(1)
      heard()
      hook = function() put_apart "b=3" compact() end
      assert(state:update())
      assert.equal("a=1 b=3", contents(state))
      assert.equal("a:nil>1 b:1>3 gone:1>nil", heard())
    end)

    it("has nothing older than what was there when the update began", function()
      put_apart "b=1"
      state = store:table("t", { decode = decode })
      put_apart "a=1 b=2"
      hook = function() put_apart "b=3" compact() end
      assert(state:update())
      assert.equal("a=1 b=3", contents(state))
    end)

    it("gives up when that never ends, and goes on at the next update", function()
      put_apart "a=1"
      local rounds = 0
      local function again()
        rounds = rounds + 1
        put_apart "a=2"
        compact()
        hook = again
      end
      state = store:table("t", { decode = decode })
      put_apart "a=1"
      hook = again
      assert.equal("busy", select(3, state:update()))
      hook = nil
      assert(state:update())
      assert.equal("a=2", contents(state))
      assert.equal(rounds + 2, state:offset())
    end)
  end)
end)

-- Iterators while the log changes under them.
local support = require "support"

local raised = support.raised

describe("an iterator in the middle", function()
  local topic, store

  before_each(function()
    topic, store = support.topic { cleanup_policy = "compact,delete", retention_ms = 1000, file_delete_delay_ms = 60000 }
    for i = 0, 29 do
      topic:append("k" .. i % 3, tostring(i))
      if i % 10 == 9 then topic:roll() end
    end
    topic:append("last", "30")
  end)
  after_each(support.cleanup)

  -- Takes n records; returns the iterator and what is left to come when called.
  local function begun(n, options)
    local iterator = topic:records(options)
    for i = 1, n do assert.equal(i - 1, (iterator())) end
    return function()
      local list = {}
      for offset in iterator do list[#list + 1] = offset end
      return list
    end
  end

  local function range(from, to)
    local list = {}
    for i = from, to do list[#list + 1] = i end
    return list
  end

  it("goes on over a roll and appends, to the end it began with", function()
    local rest = begun(5)
    topic:roll()
    topic:append("more", "1")
    assert.same(range(5, 30), rest())
  end)

  it("goes on through deleted segments whose files wait", function()
    local rest = begun(5)
    support.now = support.now + 5000
    assert(topic:retain().segments >= 3)
    assert.same(range(5, 30), rest())
  end)

  it("finishes the segment it stands in when the files are gone, and is told so then", function()
    topic:alter { file_delete_delay_ms = 0 }
    local iterator = topic:records()
    for i = 0, 4 do assert.equal(i, (iterator())) end
    support.now = support.now + 5000
    topic:append("new", "31")
    store:maintain()
    assert.is_true(topic:earliest() >= 30)
    local seen = {}
    local err = raised(function()
      for offset in iterator do seen[#seen + 1] = offset end
    end)
    assert.equal("offset_out_of_range", err.code)
    assert.same(range(5, 9), seen)
  end)

  it("goes on over a swap, with what the cleaning left", function()
    local rest = begun(15)
    assert.equal(1, topic:compact({ force = true }).partitions)
    local list, seen = rest(), {}
    for i, offset in ipairs(list) do
      assert(i == 1 or offset > list[i - 1])
      seen[offset] = true
    end
    for offset = 27, 30 do assert(seen[offset], "the last value of a key is not missed") end
  end)

  it("goes on over delete_records in what it holds", function()
    local rest = begun(5)
    topic:delete_records(20)
    local list = rest()
    assert.equal(30, list[#list])
  end)

  it("is told when its topic is deleted, or finishes", function()
    local iterator = topic:records()
    iterator()
    store:delete_topic "t"
    local ok, err = pcall(function()
      local n = 1
      for offset in iterator do
        assert(offset == n)
        n = n + 1
      end
      assert(n == 31)
    end)
    assert(ok or err.code == "unknown_topic", tostring(err))
  end)

  it("does not read a topic that was made anew under the name", function()
    local iterator = topic:records()
    iterator()
    store:delete_topic "t"
    local fresh = store:topic("t", {})
    for i = 1, 40 do fresh:append("new", tostring(i)) end
    pcall(function()
      for _, key in iterator do assert(key ~= "new") end
    end)
    assert.equal(40, #support.collect(fresh:records()))
  end)

  it("raises use after close when its store closes", function()
    local iterator = topic:records()
    iterator()
    store:close()
    for _ = 1, 2 do assert.matches("use after close", tostring(raised(iterator))) end
  end)

  it("stays at its end", function()
    local iterator = topic:records { from = 29 }
    iterator()
    iterator()
    for _ = 1, 3 do assert.is_nil((iterator())) end
    topic:append("more", "1")
    assert.is_nil((iterator()))
  end)

  it("may be left and others begun, many at once", function()
    local iterators = {}
    for i = 1, 200 do
      iterators[i] = topic:records { from = i % 30 }
      assert.equal(i % 30, (iterators[i]()))
    end
    topic:compact { force = true }
    topic:roll()
    for i = 1, 200, 2 do iterators[i] = nil end
    collectgarbage()
    for i = 2, 200, 2 do
      local last
      for offset in iterators[i] do last = offset end
      assert.equal(30, last)
    end
  end)

  it("may be nested and broken off", function()
    local pairs_seen = 0
    for a in topic:records { to = 5 } do
      for b in topic:records { from = a } do
        if b > a + 1 then break end
        pairs_seen = pairs_seen + 1
      end
    end
    assert.equal(10, pairs_seen)
  end)

  it("may yield", function()
    local co = coroutine.wrap(function()
      for offset in topic:records { to = 3 } do coroutine.yield(offset) end
      return "done"
    end)
    assert.same({ 0, 1, 2, "done" }, { co(), co(), co(), co() })
  end)
end)

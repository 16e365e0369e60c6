-- Consumer groups: who has which partition, what a member may commit, and the death of a member.
local support = require "support"
local disk = require "disk"
local members = require "members"
local group = require "sediment.group"

local places = members.places

-- What other processes run: arg[1] is the store. A record in the topic "said" tells that they have come somewhere.
local MEMBER = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false }))
local said = assert(store:topic "said")
local consumer = assert(store:consumer { group = "g", topics = { "t" } })
]]

describe("a division of partitions", function()
  -- "slot slot ..." by partition, after others were there before.
  local function divide(slots, count, before)
    local owners = {}
    for p, slot in pairs(before or {}) do owners[p - 1] = { slot = slot, number = 7 } end
    local after, out = group.assign(slots, count, owners), {}
    for p = 0, count - 1 do
      out[p + 1] = after[p].slot
      local kept = owners[p] and owners[p].slot == after[p].slot
      assert.equal(kept and 7 or owners[p] and 8 or 0, after[p].number)
    end
    return table.concat(out, " ")
  end

  it("is Kafka's range assignment where nobody has any", function()
    assert.equal("0 0 0 0 1 1 1 2 2 2", divide({ 0, 1, 2 }, 10))
    assert.equal("3 1", divide({ 3, 1, 2 }, 2))
    assert.equal("5 5 5", divide({ 5 }, 3))
    assert.equal("", divide({ 0, 1 }, 0))
  end)

  it("leaves each what it has, up to its share", function()
    assert.equal("0 0 1 1", divide({ 0, 1 }, 4, { 0, 0, 0, 0 }))
    assert.equal("1 1 1 2 2 2", divide({ 1, 2 }, 6, { 0, 1, 1, 0, 2, 2 }))
    assert.equal("0 1 2 2", divide({ 0, 1, 2 }, 4, { 0, 1, 2, 2 }))
    assert.equal("0 1 2 0", divide({ 0, 1, 2 }, 4, { 0, 1, 2 }))
  end)

  it("moves as few as it can, at random, and stays even", function()
    local seed = 5
    local function random(n)                                     -- 1 to n
      seed = (seed * 69069 + 12345) % 2 ^ 32
      return math.floor(seed / 65536) % n + 1
    end
    local before, slots = {}, { 0 }
    for round = 1, 300 do
      if #slots > 1 and random(2) == 1 then table.remove(slots, random(#slots)) else slots[#slots + 1] = round end
      local count, owners, held = 1 + random(20), {}, {}
      for p, slot in pairs(before) do owners[p] = { slot = slot, number = 1 } end
      local after = group.assign(slots, count, owners)
      for _, slot in ipairs(slots) do held[slot] = 0 end
      before = {}
      for p = 0, count - 1 do
        held[after[p].slot] = held[after[p].slot] + 1
        before[p] = after[p].slot
      end
      for p = 0, count - 1 do
        local least, most = math.floor(count / #slots), math.ceil(count / #slots)
        assert.truthy(held[after[p].slot] >= least and held[after[p].slot] <= most)
        local owner = owners[p] and owners[p].slot
        if held[owner] and owner ~= after[p].slot then assert.truthy(held[owner] >= least) end     -- it has its share without it
      end
    end
  end)
end)

describe("a consumer group", function()
  local path, store, topic

  before_each(function()
    path = support.path()
    store = support.open(path)
    topic = store:topic("t", { partitions = 4 })
    store:topic("said", {})
  end)
  after_each(support.cleanup)

  local function member(topics, name) return assert(store:consumer { group = name or "g", topics = topics or { "t" } }) end

  local function fill(count)
    for i = 1, count do topic:append("k", tostring(i), { partition = i % 4 }) end
  end

  local function parts(consumer, name) return table.concat(assert(consumer:assignment())[name or "t"] or {}, " ") end

  -- Starts a process, and waits until it has said something: that, its pipe and its number.
  local function run(text)
    local said = store:topic "said"
    local at = said:latest()
    local pipe, pid = support.start(path, MEMBER .. text)
    assert.equal(at + 1, said:wait(at, 60000))
    return support.collect(said:records { from = at })[1].value, pipe, pid
  end

  it("divides the partitions among its members, at their next look", function()
    local a = member()
    assert.equal("0 1 2 3", parts(a))
    local b = member()
    assert.same({ "0 1", "2 3" }, { parts(a), parts(b) })
    local c = member()
    assert.same({ "0 1", "2", "3" }, { parts(a), parts(b), parts(c) })
    a:close()
    assert.same({ "0 2", "1 3" }, { parts(b), parts(c) })
    b:close()
    assert.equal("0 1 2 3", parts(c))
  end)

  it("has members that want different topics", function()
    store:topic("u", { partitions = 2 })
    local a, b = member { "t", "u" }, member { "u" }
    assert.same({ "0 1 2 3", "0", "1" }, { parts(a), parts(a, "u"), parts(b, "u") })
  end)

  it("has members without a partition, where there are more of them", function()
    store:topic("one", {})
    local a, b = member { "one" }, member { "one" }
    assert.same({ "0", "" }, { parts(a, "one"), parts(b, "one") })
    assert.same({}, b:poll())
    a:close()
    assert.equal("0", parts(b, "one"))
  end)

  it("shares out partitions that are added", function()
    local a, b = member(), member()
    topic:alter { partitions = 6 }
    assert.same({ "0 1 4", "2 3 5" }, { parts(a), parts(b) })
  end)

  it("gives each record to one member, and none is left out", function()
    fill(40)
    local a, b, seen = member(), member(), {}
    for _, consumer in ipairs { a, b } do
      for _, r in ipairs(consumer:poll()) do
        local place = r.partition .. ":" .. r.offset
        assert.is_nil(seen[place])
        seen[place] = true
      end
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.equal(40, n)
  end)

  it("keeps what was read where a partition stays with its member", function()
    fill(8)
    local a = member()
    assert.equal(8, #a:poll())
    local b = member()
    assert.same({}, a:poll())
    assert.equal("2:0 2:1 3:0 3:1", places(b:poll()))          -- moved, and nothing was committed
  end)

  it("refuses the commit of a member for what is another's by now, and nothing of it is written", function()
    fill(8)
    local a = member()
    a:poll()
    local b = member()
    local done, message, code = a:commit()
    assert.same({ nil, "fenced" }, { done, code })
    assert.matches("group 'g': t%-2, t%-3 went to another member meanwhile; poll again", message)
    assert.is_nil(b:committed("t", 0))
    assert.equal("fenced", select(3, a:commit { t = { [2] = 1 } }))
    assert.same({}, a:poll())
    assert.is_true(a:commit())
    assert.same({ 2, 2, nil, nil }, { (a:committed("t", 0)), (a:committed("t", 1)), (a:committed("t", 2)), (a:committed("t", 3)) })
    assert.equal("fenced", select(3, a:seek("t", 2, 0)))
    b:poll()
    assert.is_true(b:commit())
    assert.equal(2, (a:committed("t", 3)))
  end)

  it("refuses it also when the partition has come back", function()
    fill(8)
    local a = member()
    a:poll()
    local b = member()
    b:poll()
    b:commit { t = { [2] = 2, [3] = 2 } }
    b:close()
    assert.equal("fenced", select(3, a:commit { t = { [2] = 1 } }))
    assert.same({}, a:poll())
    assert.equal(2, a:position("t", 2))                          -- where b has come to
    assert.is_true(a:commit())
  end)

  it("refuses it also when the member knows that the partition is another's, or that there is none", function()
    fill(8)
    local a = member()
    local list = a:poll()
    local b = member()
    assert.same({}, a:poll())
    b:poll()
    b:commit { t = { [2] = 1 } }
    for _, r in ipairs(list) do
      if r.partition == 2 then assert.equal("fenced", select(3, a:commit(r))) end
    end
    assert.equal("fenced", select(3, a:commit { t = { [0] = 1, [2] = 2 } }))
    assert.equal("unknown_partition", select(3, a:commit { t = { [4] = 0 } }))
    assert.equal("unknown_partition", select(3, a:commit { t = { [-1] = 0 } }))
    assert.equal("unknown_topic", select(3, a:commit { u = { [0] = 0 } }))
    assert.same({ t = { [2] = { offset = 1, metadata = "", timestamp = support.now } } }, store:group "g".offsets)
  end)

  it("goes on in a loop with commit_every when others come and go", function()
    fill(40)
    local a, n, b = member(), 0, nil
    for record in a:records { commit_every = 1 } do
      n = n + 1
      if n == 2 then b = member() end
      if n == 5 then b:close() end
      assert.truthy(record.value)
    end
    assert.truthy(n >= 40)
    assert.same({ total = 0, topics = { t = { [0] = 0, [1] = 0, [2] = 0, [3] = 0 } } }, a:lag())
    for p = 0, 3 do assert.equal(10, (a:committed("t", p))) end
  end)

  it("decides once where \"latest\" is, for members that come later and for partitions that are added, too", function()
    fill(8)
    local function late() return assert(store:consumer { group = "g", topics = { "t" }, auto_offset_reset = "latest" }) end
    local a = late()
    fill(8)
    local b = late()
    assert.same({ 4, 4 }, { #a:poll(), #b:poll() })
    a:commit()
    b:commit()
    topic:alter { partitions = 6 }
    topic:append("k", "v", { partition = 5 })
    assert.equal(1, #a:poll() + #b:poll())
    assert.equal(0, #assert(store:consumer { topics = { "t" }, auto_offset_reset = "latest" }):poll())
  end)

  it("begins a moved partition at its last commit", function()
    fill(8)
    local a = member()
    a:poll()
    a:commit { t = { [2] = 1, [3] = 1 } }
    local b = member()
    assert.equal("2:1 3:1", places(b:poll()))
  end)

  it("is told of with its members and commits", function()
    assert.equal("not_found", select(3, store:group "g"))
    fill(4)
    local a, b = member(), member()
    a:poll()
    a:commit { t = { [0] = { offset = 1, metadata = "m" } } }
    assert.same({ "g" }, store:groups())
    assert.same({ members = 2, offsets = { t = { [0] = { offset = 1, metadata = "m", timestamp = support.now } } } }, store:group "g")
    a:close()
    b:close()
    assert.equal(0, store:group "g".members)
  end)

  it("can be deleted when nobody is in it", function()
    fill(4)
    local a = member()
    a:poll()
    a:commit()
    local done, message, code = store:delete_group "g"
    assert.same({ nil, "busy" }, { done, code })
    assert.matches("has 1 members", message)
    a:close()
    assert.is_true(store:delete_group "g")
    assert.same({}, store:groups())
    assert.equal("not_found", select(3, store:delete_group "g"))
    assert.equal(4, #member():poll())
  end)

  it("leaves no file behind", function()
    local a, b = member(), member()
    assert.equal(1, #disk.list(path, "sediment.group-"))
    a:close()
    b:close()
    assert.same({}, disk.list(path, "sediment.group-"))
  end)

  it("takes a file that was damaged for none", function()
    fill(8)
    local a, b = member(), member()
    a:poll()
    local file = path .. "/" .. disk.list(path, "sediment.group-")[1]
    for _, bytes in ipairs { "", "SDMGROUP", ("x"):rep(500), (disk.read(file):gsub("member 0", "member 7")) } do
      disk.write(file, bytes)
      local seen = {}
      for _ = 1, 3 do
        for _, consumer in ipairs { a, b } do assert(consumer:poll()) end
      end
      for _, consumer in ipairs { a, b } do
        for _, p in ipairs(consumer:assignment().t) do seen[#seen + 1] = p end
      end
      table.sort(seen)
      assert.equal("0 1 2 3", table.concat(seen, " "))
      assert(a:commit())
    end
  end)

  describe("over processes", function()
    it("has each its share, and takes over from one that closes", function()
      local a = member()
      assert.equal("2 3", (run [[
        local at = said:append("k", table.concat(consumer:assignment().t, " "))
        said:wait(at + 1, 60000)
        consumer:close()
        at = said:append("k", "closed")
        said:wait(at + 1, 60000)
      ]]))
      assert.equal("0 1", parts(a))
      local said = store:topic "said"
      said:wait(said:append("k", "go") + 1, 60000)
      assert.equal("0 1 2 3", parts(a))
      said:append("k", "end")
    end)

    it("lets go of a member that is killed at once", function()
      fill(8)
      local a = member()
      local _, pipe, pid = run [[
        consumer:poll()
        said:wait(said:append("k", "here") + 1, 60000)
      ]]
      assert.equal("0 1", parts(a))
      assert.equal(0, disk.run("kill -9 " .. pid))
      pipe:close()
      assert.equal("0 1 2 3", parts(a))
      assert.equal(8, #a:poll())
    end)

    it("wakes a member that waits when another one dies", function()
      fill(8)
      local a = member()
      run [[
        consumer:poll()
        local at = said:append("k", "here")
        os.execute "(sleep 0.2; kill -9 $PPID) > /dev/null 2>&1 &"
        said:wait(at + 1, 60000)
      ]]
      assert.equal("0:0 0:1 1:0 1:1", places(a:poll()))
      assert.equal("2:0 2:1 3:0 3:1", places(a:poll { timeout_ms = 60000 }))
    end)

    it("loses nothing and skips nothing when members are killed again and again", function()
      local total, done = 4000, 0
      fill(total)
      local ledger = path .. ".ledger"
      -- Writes down each record before it commits it; dies now and then in the middle.
      local text = [[
        said:append("k", "here")
        local out = io.open(arg[1] .. ".ledger", "a")
        local n = 0
        while true do
          local list = assert(consumer:poll { max = 50, timeout_ms = 100 })
          for _, r in ipairs(list) do
            out:write(r.partition, ":", r.offset, "\n")
            n = n + 1
            if n == DIES then
              out:flush()
              os.execute "kill -9 $PPID"
            end
          end
          out:flush()
          local ok, message, code = consumer:commit()
          assert(ok or code == "fenced", message)
          if consumer:lag().total == 0 and #list == 0 then os.exit(0) end
        end
      ]]
      local pipes = {}
      for round = 1, 6 do pipes[round] = select(2, run((text:gsub("DIES", tostring(150 * round + 7))))) end
      pipes[7] = select(2, run((text:gsub("DIES", "-1"))))
      for _, pipe in ipairs(pipes) do
        assert.is_truthy(({ ["status 0\n"] = true, ["status 137\n"] = true })[pipe:read "*a":gsub("[^\n]*Killed[^\n]*\n", "")])
        pipe:close()
      end
      local seen, n = {}, 0
      for line in io.lines(ledger) do
        done = done + 1
        if not seen[line] then
          seen[line] = true
          n = n + 1
        end
      end
      assert.equal(total, n)
      assert.truthy(done >= total)
      local left = member()
      assert.same({}, left:poll())
    end)
  end)
end)

describe("offsets that nobody uses any more", function()
  after_each(support.cleanup)

  local WEEK = 7 * 24 * 3600 * 1000

  it("expire a week after the last member has left", function()
    local store = support.open()
    local topic = store:topic("t", {})
    for _ = 1, 3 do topic:append("k", "v") end
    local c = assert(store:consumer { group = "g", topics = { "t" } })
    c:poll()
    c:commit()
    support.now = support.now + 3 * WEEK
    assert.equal(0, store:maintain().offsets_expired)             -- a member lives
    c:close()
    support.now = support.now + WEEK - 1
    assert.equal(0, store:maintain().offsets_expired)
    assert.same({ "g" }, store:groups())
    support.now = support.now + 1
    assert.equal(1, store:maintain().offsets_expired)
    assert.same({}, store:groups())
    assert.equal(0, store:maintain().offsets_expired)
  end)

  it("not when somebody has come back, and later when the last one was killed", function()
    local path = support.path()
    local store = support.open(path, { options = { ["offsets.retention.minutes"] = 1 } })
    store:topic("t", {}):append("k", "v")
    local c = assert(store:consumer { group = "g", topics = { "t" } })
    c:poll()
    c:commit()
    c:close()
    support.now = support.now + 59999
    store:consumer { group = "g", topics = { "t" } }:close()
    support.now = support.now + 59999
    assert.equal(0, store:maintain().offsets_expired)
    local killed = assert(store:consumer { group = "g", topics = { "t" } })
    support.now = support.now + 3600000
    store:close()                                                   -- without the consumer's, as a death is
    store = support.open(path, { options = { ["offsets.retention.minutes"] = 1 } })
    assert.equal(0, store:maintain().offsets_expired)             -- from now on it is known to be empty
    support.now = support.now + 60000
    assert.equal(1, store:maintain().offsets_expired)
    assert.truthy(killed)
  end)

  it("of a deleted topic go with the next maintenance", function()
    local store = support.open()
    local topic = store:topic("t", {})
    topic:append("k", "v")
    local c = assert(store:consumer { group = "g", topics = { "t" } })
    c:poll()
    c:commit()
    store:delete_topic "t"
    topic = store:topic("t", { partitions = 2 })
    topic:append("k", "v", { partition = 1 })
    c:poll()
    c:commit { t = { [1] = 1 } }                                    -- of the new one
    assert.equal(1, store:maintain().offsets_expired)
    assert.same({ nil, 1 }, { (c:committed("t", 0)), (c:committed("t", 1)) })
    local left = -1
    for _, _, value in store:topic "__consumer_offsets":records() do left = left + (value and 1 or -1) end
    assert.equal(0, left)
  end)
end)

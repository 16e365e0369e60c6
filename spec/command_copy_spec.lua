-- sediment copy between stores in folders, and from a partition's folder. Over a cluster: spec/kafka/copying.
local ends = require "sediment.command.copy.ends"
local Journal = require "sediment.command.copy.journal"
local core = require "sediment.core"
local disk = require "disk"
local scripts = require "scripts"
local support = require "support"

local contents = support.contents

local T = 1700000000000
local unpack = table.unpack or unpack

describe("sediment copy", function()
  local directory, store

  -- Commits expire by the clock, and the command has the machine's.
  before_each(function()
    support.now = os.time() * 1000
    directory = support.foreign():gsub("/$", "")
    store = support.open(directory .. "/from")
  end)
  after_each(support.cleanup)

  local function copy(...) return scripts.sediment(directory, "copy", "from", "t", "to", ...) end

  local function copies(...)
    local said, complaint, status = copy(...)
    assert.equal(0, status, complaint)
    return said, complaint
  end

  local function fails(expected, ...)
    local said, complaint, status = copy(...)
    assert.equal(1, status, said)
    assert.matches(expected, complaint, 1, true)
    return complaint
  end

  local function target() return support.open(directory .. "/to") end

  -- Records of every kind, `count` of them in each of some partitions.
  local function fill(count, config)
    local topic = store:topic("t", config or {})
    for p = 0, topic:partitions() - 1 do
      for i = 1, count do
        local value = i % 5 ~= 0 and ("value %d "):format(i):rep(i % 7) or nil
        assert(topic:append(i % 4 == 0 and "" or "key" .. i % 50, value, {
          partition = p, timestamp = i % 9 == 0 and -1 or T + i * 1000,
          headers = i % 3 == 0 and { { "h", "x" }, { "none" }, { "", "" } } or nil,
        }))
      end
    end
    return topic
  end

  local function same_contents(from, to)
    for p = 0, from:partitions() - 1 do assert.same(contents(from, p), contents(to, p)) end
  end

  -- ---------------------------------------------------------------------------------------------------------------------- what is copied

  it("copies keys, values, headers and times to the partitions of the same number", function()
    local topic = fill(700, { partitions = 3, retention_ms = -1, segment_bytes = 20000 })
    local said, complaint = copies()
    local rows = { "partition  records  source  target  digest            compared\n" }
    for p = 0, 2 do rows[p + 2] = ("        %d      700   0-700   0-700  DIGEST  the same\n"):format(p) end
    assert.equal(table.concat(rows), (said:gsub(("%x"):rep(16), "DIGEST")))
    assert.matches("^sediment copy: 2,100 records in %d+%.%d s[^,]*, to t in to\n$", complaint)
    local copied = target():topic "t"
    same_contents(topic, copied)
    assert.same({ 3, -1, 20000 }, { copied:partitions(), copied:config()["retention.ms"], copied:config()["segment.bytes"] })
    assert.equal("default", copied:describe()["cleanup.policy"].source)
  end)

  it("goes on with what has come since", function()
    local topic = fill(10)
    copies()
    topic:append("k", "more", { timestamp = T })
    assert.matches("1 record in ", select(2, copies()))
    assert.matches("0 records in ", select(2, copies()))
    same_contents(topic, target():topic "t")
  end)

  it("copies to a topic of another name, and an empty one", function()
    store:topic("t", { partitions = 2 })
    copies "other"
    assert.equal(2, target():topic("other"):partitions())
    assert.equal("unknown_topic", select(3, target():topic "t"))
    assert.matches("there is neither a store nor", select(2, scripts.sediment(directory, "copy", "nothing", "t", "to")))
  end)

  it("copies within a store, and never a topic onto itself", function()
    local topic = fill(20)
    assert.equal(0, select(3, scripts.sediment(directory, "copy", "from", "t", "from", "u")))
    same_contents(topic, store:topic "u")
    assert.matches("has records that are no copy's", select(2, scripts.sediment(directory, "copy", "from", "t", "from")))
  end)

  it("copies a partition's folder to the partition of its number", function()
    local topic = fill(300, { partitions = 2, retention_ms = -1 })
    topic:flush(1)
    local _, complaint, status = scripts.sediment(directory, "copy", "from/t-1", "t", "to")
    assert.equal(0, status, complaint)
    local copied = target():topic "t"
    assert.same(contents(topic, 1), contents(copied, 1))
    assert.same({ 2, 0, -1 }, { copied:partitions(), copied:latest(0), copied:config()["retention.ms"] })
    local function usage(expected, ...)
      local _, why, what = scripts.sediment(directory, "copy", ...)
      assert.equal(2, what)
      assert.matches(expected, why, 1, true)
    end
    usage("from/t-1 is a partition of 't', not of 'u'", "from/t-1", "u", "to")
    usage("--group: a partition's folder has no groups", "from/t-1", "t", "to", "--group", "g")
    disk.run("mkdir '" .. directory .. "/plain'")
    usage("tells its number, as t-0 does", "plain", "t", "to")
  end)

  it("leaves out times where the target makes its own", function()
    fill(50)
    target():topic("t", { message_timestamp_type = "LogAppendTime" })
    local said, complaint = copies()
    assert.matches("its own %(LogAppendTime%): times are not compared\n", complaint)
    assert.matches("the same\n$", said)
    target():topic("t"):alter { message_timestamp_type = "CreateTime" }
    fails "message.timestamp.type was changed since the copy began"
  end)

  -- --------------------------------------------------------------------------------------------------------------------------- refused

  it("refuses a target with records that are none of its own, at first and later", function()
    fill(20)
    target():topic("t", {}):append("k", "somebody's")
    fails "partition 0 of 't' in the target has records that are no copy's: it must be empty"
    assert.equal(1, target():topic("t"):latest())
    copies "u"
    target():topic("u"):append("k", "somebody's")
    fails("that are no copy's: somebody else writes to it", "u")
  end)

  it("refuses fewer partitions, a copy of another topic, and a second copy at the same time", function()
    fill(20, { partitions = 2 })
    target():topic("narrow", {})
    fails("topic 'narrow' of the target has 1 partitions, the source has 2", "narrow")
    target():topic("wide", { partitions = 3 })
    copies "wide"
    local other = target():consumer { group = "sediment-copy.wide", topics = { "wide" } }
    fails("somebody else is copying to the topic now", "wide")
    other:close()
    store:topic("other", { partitions = 2 })
    local _, complaint = scripts.sediment(directory, "copy", "from", "other", "to", "wide")
    assert.matches("topic 'wide' of the target holds a copy of 't'", complaint, 1, true)
  end)

  it("names the record that the target does not take, and copies those before it", function()
    local topic = store:topic("t", {})
    for i = 1, 30 do topic:append("k", i == 20 and ("x"):rep(5000) or "v", { timestamp = T }) end
    target():topic("t", { max_message_bytes = 4000 })
    fails "t-0@19 cannot be copied: "
    assert.equal(19, target():topic("t"):latest())
    target():topic("t"):alter { max_message_bytes = 6000 }
    copies()
    same_contents(topic, target():topic "t")
  end)

  it("fails at damage, with what stands before it copied", function()
    local topic = store:topic("t", { segment_bytes = 2000 })
    for i = 1, 100 do topic:append("k", ("v"):rep(90), { timestamp = T + i }) end
    support.damaged()
    local segment = topic:segments()[3]
    store:close()
    local bytes = disk.read(segment.path)
    disk.write(segment.path, bytes:sub(1, 100) .. ("\255"):rep(20) .. bytes:sub(121))
    local complaint = fails "t-0: "
    assert.matches(segment.path:match "[^/]*$", complaint, 1, true)
    assert.matches("what came before is copied; the next run goes on there", complaint)
    assert.equal(segment.base_offset, target():topic("t"):latest())
    fails "t-0: "
    assert.equal(segment.base_offset, target():topic("t"):latest())
  end)

  it("says so when the source has let go of what was to be copied", function()
    local topic = fill(20)
    copies()
    for _ = 1, 10 do topic:append("k", "v") end
    topic:delete_records(25)
    fails "t-0: it is copied up to offset 20, and the source has only those from 25 on now: what was between is lost"
    store:delete_topic "t"
    store:topic("t", {})
    fails "it is copied up to offset 20, and the source ends at 0: it is not what was copied"
  end)

  -- -------------------------------------------------------------------------------------------------------------------------- comparing

  it("tells where a copy differs", function()
    fill(2000)
    copies "t"
    -- Another topic with what the copy has noted, which does not fit its records.
    local source = store:topic "t"
    local forged = target():topic("forged", {})
    local n = 0
    for _, key, value, timestamp, headers in source:records() do
      n = n + 1
      forged:append(key, n == 1234 and "another" or value, { timestamp = timestamp, headers = headers })
    end
    local consumer = target():consumer { group = "sediment-copy.t", topics = { "t" } }
    local _, noted = consumer:committed "t"
    consumer:close()
    local forger = target():consumer { group = "sediment-copy.forged", topics = { "forged" } }
    forger:commit { forged = { [0] = { offset = 2000, metadata = noted } } }
    forger:close()
    fails("partition 0: the target's offset 1233 is not what the source has at 1233", "forged")
    copies("forged", "--no-verify")
  end)

  it("compares what the target's own cleaning has left", function()
    local topic = fill(300, { cleanup_policy = "compact", segment_bytes = 4000 })
    copies()
    local copied = target():topic "t"
    copied:compact { force = true }
    assert.is_true(#contents(copied, 0) < 250)
    assert.matches("the same; %d+ records cleaned away there\n$", (copies()))
    topic:compact { force = true }
    fails "cannot be compared: the source has not all records any more that were copied, nor has the target"
    copies "--no-verify"
  end)

  it("tells of records that are missing, unless it is retention that took them", function()
    fill(300, { segment_bytes = 4000 })
    copies()
    local copied = target():topic "t"
    copied:alter { cleanup_policy = "compact" }
    copied:compact { force = true }
    copied:alter { cleanup_policy = "delete" }
    fails(("partition 0: 300 records were copied, and the target has %d; the first that is missing has its offset 0"):format(
      #contents(copied, 0)))
    copied:delete_records(290)
    assert.matches("the same; 290 records cleaned away there\n$", (copies()))
  end)

  -- ---------------------------------------------------------------------------------------------------------------------------- going on

  local function partial(topic, arrived, config)
    local to = target()
    local copied = to:topic("t", config or {})
    local journal = assert(Journal.open { store = to, name = "t" })
    local list, runs = {}, {}
    for offset, key, value, timestamp, headers in topic:records() do
      list[#list + 1] = { key = key, value = value, timestamp = timestamp, headers = headers }
      local run = runs[#runs]
      if run and run[1] + run[2] == offset then run[2] = run[2] + 1 else runs[#runs + 1] = { offset, 1 } end
    end
    assert(journal:write(0, {
      topic = "t", first = 0, base = 0, from = 0, at = 0, count = 0, times = true, runs = runs, digest = ("0"):rep(16),
      after = core.digest("", list, true),
    }))
    for i = 1, arrived do
      copied:append(list[i].key, list[i].value, { timestamp = list[i].timestamp, headers = list[i].headers })
    end
    journal:close()
    return copied, #list
  end

  it("goes on wherever it was cut off", function()
    local topic = fill(40, { cleanup_policy = "compact", segment_bytes = 700 })
    topic:compact { force = true }
    local count = #contents(topic, 0)
    assert.is_true(count < topic:latest())
    for _, arrived in ipairs { 0, 1, 2, count - 1, count } do
      local copied = partial(topic, arrived)
      assert.matches(("^sediment copy: %d records? in "):format(count - arrived), select(2, copies()))
      same_contents(topic, copied)
      target():delete_topic "t"
    end
  end)

  it("goes on exactly though the source was compacted since", function()
    local topic = fill(60, { cleanup_policy = "compact", segment_bytes = 700 })
    local copied = partial(topic, 31)
    local before = contents(topic, 0)
    topic:compact { force = true }
    local rest = {}
    for offset, key, value in topic:records() do
      if offset >= 31 then rest[#rest + 1] = { key, value } end
    end
    copy "--no-verify"
    local all = contents(copied, 0)
    assert.equal(31 + #rest, #all)
    for i = 1, 31 do assert.same(before[i], all[i]) end
    for i, r in ipairs(rest) do assert.same(r, { all[31 + i].key, all[31 + i].value }) end
  end)

  -- A broker that has just come back may tell an end of before.
  it("does not take the first end that a cluster tells for the last", function()
    fill(1)
    local methods = getmetatable(ends.source(directory .. "/from", "t"))
    local function settled(known, most, told)
      local at, asked = 1, {}
      local topic = {}
      function topic.latest() return told[1] end
      function topic.wait(_, offset)
        asked[#asked + 1] = offset
        at = at + 1
        return told[at]
      end
      return { methods.settled({ latest = methods.latest, topic = topic, is_cluster = true }, 0, known, most), unpack(asked) }
    end
    assert.same({ 10 }, settled(10, 10, { 10 }))
    assert.same({ 10, 9 }, settled(10, 10, { 7, 10 }))
    assert.same({ 12, 10, 11, 12 }, settled(10, 15, { 10, 11, 12 }))
    assert.same({ 15, 9, 11 }, settled(10, 15, { 3, 11, 15 }))
    assert.same({ 3, 9, 3 }, settled(10, 15, { 3 }))
  end)

  local function started(...) return scripts.start_sediment(directory, "copy", "from", "t", "to", ...) end

  it("leaves nothing out and has nothing twice, however often it is killed", function()
    local topic = store:topic("t", { partitions = 2, retention_ms = -1 })
    for p = 0, 1 do
      for b = 1, 100 do
        local batch = {}
        for i = 1, 500 do batch[i] = { key = "k" .. i, value = ("%d %d"):format(b, i), timestamp = T + b } end
        assert(topic:append_batch(batch, { partition = p }))
      end
    end
    math.randomseed(os.time())
    local within, previous = 0, 0
    for _ = 1, 25 do
      local pipe, pid = started "--no-verify"
      disk.run(("sleep %.3f"):format(0.02 + math.random() * 0.08))
      disk.run("kill -9 " .. pid .. " 2> /dev/null")
      pipe:read "*a"
      pipe:close()
      local copied = target():topic "t"
      local count = copied and (copied:latest(0) + (copied:partitions() > 1 and copied:latest(1) or 0)) or 0
      if count > previous and count < 100000 then within = within + 1 end
      previous = count
      if count >= 100000 then break end
    end
    assert.is_true(within >= 1, "no run was killed while it copied")
    copies()
    same_contents(topic, target():topic "t")
  end)

  local function as_soon_as_it_copies(signal, pid)
    local log = directory .. "/to/t-0/00000000000000000000.log"
    disk.run(("timeout 30 sh -c 'until [ -s \"%s\" ]; do :; done'; kill -%s %d"):format(log, signal, pid))
  end

  it("ends in order at a signal, and the next run goes on", function()
    local topic = store:topic("t", { retention_ms = -1 })
    local batch = {}
    for i = 1, 1000 do batch[i] = { key = "k" .. i, value = ("v"):rep(200), timestamp = T + i } end
    for _ = 1, 200 do topic:append_batch(batch) end
    local pipe, pid = started()
    as_soon_as_it_copies("INT", pid)
    local said = pipe:read "*a"
    pipe:close()
    assert.matches("; the next run goes on there\nstatus 130\n$", said)
    assert.is_true(target():topic("t"):latest() < 200000)
    copies()
    assert.equal(200000, target():topic("t"):latest())
  end)

  -- After a loss of power the log goes on at the offset that was reserved. The pages that live as long as the machine are what it takes.
  it("goes on after a loss of power, and knows which offset is which across the gap", function()
    local topic = store:topic("t", { retention_ms = -1 })
    for b = 1, 200 do
      local batch = {}
      for i = 1, 500 do batch[i] = { key = "k" .. i, value = ("%d %d"):format(b, i), timestamp = T + b } end
      topic:append_batch(batch)
    end
    for _, offset in ipairs { 3, 40000, 99999, 100000 } do
      local consumer = store:consumer { group = "g" .. offset, topics = { "t" } }
      consumer:commit { t = { [0] = offset } }
      consumer:close()
    end
    local pipe, pid = started()
    as_soon_as_it_copies("KILL", pid)
    pipe:read "*a"
    pipe:close()
    disk.run("find '" .. directory .. "/to' -name sediment.control -delete")
    copies("--group", "g3", "--group", "g40000", "--group", "g99999", "--group", "g100000")
    local copied = target():topic "t"
    same_contents(topic, copied)
    assert.is_true(copied:latest() > 100000)
    for _, offset in ipairs { 3, 40000, 99999 } do
      local to = target():group("g" .. offset).offsets.t[0].offset
      local _, key, value = topic:records { from = offset }()
      assert.same({ to, key, value }, { (function(at, k, v) return at, k, v end)(copied:records { from = to }()) })
    end
    assert.equal(copied:latest(), target():group("g100000").offsets.t[0].offset)
  end)

  -- ----------------------------------------------------------------------------------------------------------------------------- groups

  local function commit(group, offset, p)
    local consumer = assert(store:consumer { group = group, topics = { "t" } })
    assert(consumer:commit { t = { [p or 0] = { offset = offset, metadata = "about " .. offset } } })
    consumer:close()
  end

  local function committed(group, p)
    local known = target():group(group)
    local c = known and known.offsets.t and known.offsets.t[p or 0]
    return c and c.offset, c and c.metadata
  end

  it("carries a group's commits over, also where the source has gaps", function()
    local topic = store:topic("t", { cleanup_policy = "compact", segment_bytes = 600, partitions = 2 })
    for i = 1, 90 do topic:append("k" .. (i % 4 == 0 and i or i % 3), "v" .. i, { partition = 0, timestamp = T + i }) end
    topic:append("k", "v", { partition = 1, timestamp = T })
    topic:compact { force = true }
    local offsets = {}
    for offset in topic:records() do offsets[#offsets + 1] = offset end
    assert.is_true(#offsets < 60)
    local groups = {}
    for c = 0, 90, 6 do
      commit("g" .. c, c)
      groups[#groups + 1], groups[#groups + 2] = "--group", "g" .. c
    end
    commit("g6", 1, 1)
    local said = copies(unpack(groups))
    for c = 0, 90, 6 do
      local expected = #offsets
      for i = #offsets, 1, -1 do
        if offsets[i] >= c then expected = i - 1 end
      end
      assert.same({ expected, "about " .. c }, { committed("g" .. c) })
      assert.matches(("group g%d: partition 0: %d -> %d\n"):format(c, c, expected), said, 1, true)
    end
    assert.equal(1, committed("g6", 1))
    assert.is_nil(committed("g12", 1))
  end)

  it("carries them over after both sides were cleaned, or says that it cannot", function()
    local topic = fill(400, { cleanup_policy = "compact", segment_bytes = 2000 })
    commit("late", 398)
    commit("early", 30)
    copies()
    target():topic("t"):compact { force = true }
    copies("--no-verify", "--group", "late", "--group", "early")
    assert.same({ 398, 30 }, { committed "late", (committed "early") })
    topic:compact { force = true }
    copies("--no-verify", "--group", "late")
    fails("group 'early': partition 0: which offset of the target is the source's", "--no-verify", "--group", "early")
  end)

  it("refuses to carry them over while the group has members, or has nothing", function()
    fill(20)
    commit("g", 7)
    fails("group 'none' has committed nothing of 't'", "--group", "none")
    local member = store:consumer { group = "g", topics = { "t" } }
    fails("group 'g' has 1 member in from", "--group", "g")
    member:close()
    local to = target()
    to:topic("u", {})
    member = to:consumer { group = "g", topics = { "u" } }
    fails("group 'g' has 1 member in to", "--group", "g")
    assert.equal(0, to:topic("t"):latest())
    member:close()
    copies("--group", "g")
    assert.equal(7, (committed "g"))
  end)
end)

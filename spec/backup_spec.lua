-- Backups: a copy of a store in use opens as a store, has all that was acknowledged, and shares nothing that either of the two
-- changes later.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("a backup", function()
  local path, copy

  before_each(function()
    path = support.path()
    copy = path .. ".copy"
  end)
  after_each(support.cleanup)

  local function log(store, topic, base) return store .. "/" .. topic .. "-0/" .. disk.log(base) end

  local function words(store, name) return support.words(assert(store:topic(name)):records()) end

  local function links(file)
    local p = io.popen("stat -c %h '" .. file .. "'")
    local count = tonumber(p:read "*a")
    p:close()
    return count
  end

  -- Segments 0, 10 and 20 of topic t; some records of topic c, cleaned; a staged record in each.
  local function make()
    local store = support.open(path)
    local t = assert(store:topic("t", { index_interval_bytes = 100, segment_jitter_ms = 0 }))
    for i = 0, 24 do
      assert(t:append_batch { { key = "k" .. i % 3, value = ("v"):rep(30) .. i, timestamp = support.now + i } })
      if i % 10 == 9 then assert(t:roll()) end
    end
    assert(t:append("staged", "record"))
    local c = assert(store:topic("c", { cleanup_policy = "compact", partitions = 2 }))
    for i = 1, 20 do assert(c:append("k" .. i % 4, i % 7 > 0 and tostring(i) or nil, { partition = 0 })) end
    assert(c:roll())
    assert(c:compact { force = true })
    assert(c:append("staged", "too", { partition = 1 }))
    return store, t, c
  end

  local function check_whole(source, dir)
    local reader = support.open(dir, { readonly = true })
    local report = assert(reader:verify())
    assert.is_true(report.ok, report.problems[1] and report.problems[1].message)
    reader:close()
    local of = support.open(dir)
    assert.same(source:topics(), of:topics())
    for _, name in ipairs(source:topics()) do
      local a, b = source:topic(name), of:topic(name)
      assert.same(a:describe(), b:describe())
      assert.equal(a:partitions(), b:partitions())
      for p = 0, a:partitions() - 1 do
        assert.same(support.collect(a:records { partition = p }), support.collect(b:records { partition = p }))
        local x, y = a:stats().partitions[p], b:stats().partitions[p]
        for _, field in ipairs { "log_start_offset", "log_end_offset", "clean_offset", "purge_floor", "segments", "size" } do
          assert.equal(x[field], y[field], name .. " " .. p .. " " .. field)
        end
        assert.equal(0, y.truncated_bytes + y.corrupt_batches)
      end
    end
    return of
  end

  it("of a store in use is a store with all that is in it", function()
    local store = make()
    assert.is_true(store:backup(copy))
    check_whole(store, copy):close()
    assert.same({ 2, 2, 1 }, { links(log(copy, "t", 0)), links(log(copy, "t", 10)), links(log(copy, "t", 20)) })
    assert.equal(1, links(path .. "/t-0/" .. ("%020d.index"):format(0)))
    assert.falsy(disk.exists(copy .. "/sediment.backup"))
    store:close()
    check_whole(support.open(path), copy)
  end)

  it("may be made into an empty folder, by a relative path, and of a store without topics", function()
    local store = support.open(path)
    assert(disk.run("mkdir '" .. copy .. "'") == 0)
    assert.is_true(store:backup(copy))
    assert.same({}, support.open(copy):topics())
    assert.is_true(store:backup(copy:gsub("^.*/", copy:match "^(.*)/" .. "/./") .. "2/"))
    assert.same({}, support.open(copy .. "2", { create = false }):topics())
  end)

  it("is refused where something is, in the store itself, and where there is no folder for it", function()
    local store = make()
    assert(disk.run("mkdir '" .. copy .. "'") == 0)
    disk.write(copy .. "/something", "")
    assert.equal("exists", select(3, store:backup(copy)))
    assert.equal("exists", select(3, store:backup(copy .. "/something")))
    assert.equal("not_found", select(3, store:backup(path .. ".no/folder")))
    assert.truthy(support.raised(store.backup, store, path .. "/inside"):find "lies in the store")
    assert.truthy(support.raised(store.backup, store, path):find "lies in the store")
    disk.run(("ln -s '%s' '%s.link'"):format(path, path))
    for _, inside in ipairs { path .. "/./inside", path .. ".link/inside", path .. "/t-0/../inside", path .. ".link" } do
      assert.truthy(support.raised(store.backup, store, inside):find "lies in the store")
    end
    assert.truthy(support.raised(store.backup, store):find "path")
    store:close()
    assert.truthy(support.raised(store.backup, store, copy .. "3"):find "use after close")
    assert.same({ "something" }, disk.list(copy))
  end)

  it("can be made by who only reads, beside writers or not, with what is staged", function()
    local store = make()
    local reader = support.open(path, { readonly = true })
    assert.is_true(reader:backup(copy))
    check_whole(store, copy):close()
    store:close()
    local before = disk.fingerprint(path)
    assert.is_true(reader:backup(copy .. "2"))
    assert.equal(before, disk.fingerprint(path))
    check_whole(support.open(path), copy .. "2")
  end)

  it("of a store that was left in disorder is refused to who only reads", function()
    local store = make()
    disk.copy(path, path .. "2")
    store:close()
    local reader = support.open(path .. "2", { readonly = true })
    -- The copied pages are of this boot and incarnation: only without them the store has no end that is known.
    disk.run("find '" .. path .. "2' -name sediment.control -delete")
    local done, message, code = reader:backup(copy)
    assert.same({ nil, "busy" }, { done, code }, message)
    assert.falsy(disk.exists(copy .. "/sediment.topics"))
    assert.same({}, disk.list(path:gsub("/store$", ""), "copy"))
  end)

  it("and its source go their own ways", function()
    local store, t, c = make()
    assert.is_true(store:backup(copy))
    local of = support.open(copy)
    local other = of:topic "t"
    assert.equal(26, other:append("only", "there"))
    assert.equal(26, t:append("only", "here"))
    of:close()
    local before = disk.fingerprint(copy)
    -- All that the source can do to its files.
    for i = 1, 30 do t:append_batch { { key = "k", value = tostring(i) } } end
    assert(t:delete_records(15))
    support.now = support.now + 8 * 24 * 3600 * 1000
    assert(store:maintain())
    assert(t:alter { retention_ms = 1000 })
    assert(t:retain())
    for i = 1, 20 do c:append("k" .. i % 4, i % 2 == 0 and "new" or nil, { partition = 0 }) end
    c:roll()
    assert(c:compact { force = true })
    support.now = support.now + 10 * 24 * 3600 * 1000
    assert(store:maintain())
    assert(store:delete_topic "t")
    store:close()
    store = support.open(path)
    assert(store:maintain())
    assert.equal(before, disk.fingerprint(copy))
    local whole = support.open(copy):verify()
    assert.is_true(whole.ok)
    assert.equal(27, support.open(copy):topic("t"):latest())
    assert.truthy(words(support.open(copy), "t"):find "only=there$")
  end)

  it("does not change its source either, whatever is deleted and cleaned in it", function()
    local store, t = make()
    assert.is_true(store:backup(copy))
    store:close()
    local before = disk.fingerprint(path)
    local of = support.open(copy)
    of:topic("t"):delete_records(20)
    support.now = support.now + 10 * 24 * 3600 * 1000
    assert(of:maintain())
    of:topic("c"):roll()
    assert(of:topic("c"):compact { force = true })
    assert(of:maintain())
    assert(of:delete_topic "c")
    of:close()
    assert.equal(before, disk.fingerprint(path))
    assert.truthy(t)
  end)

  -- The age of a segment without timestamps is the time of its .log, which the two share.
  it("keeps the time of a segment that its source retires", function()
    local store, t = make()
    assert.is_true(store:backup(copy))
    local function time() return io.popen("stat -c %Y '" .. log(copy, "t", 0) .. "'"):read "*a" end
    local before = time()
    assert(t:delete_records(10))
    support.now = support.now + 100000
    assert(t:retain())
    assert.same({ ("%020d.log.deleted"):format(0) }, disk.list(path .. "/t-0", ".log.deleted"))
    assert.equal(before, time())
    support.now = support.now + 59000
    store:maintain()
    assert.equal(1, #disk.list(path .. "/t-0", ".log.deleted"))
    support.now = support.now + 2000
    store:maintain()
    assert.same({}, disk.list(path .. "/t-0", ".deleted"))
  end)

  it("is no store while it is not finished", function()
    local store = make()
    assert.is_true(store:backup(copy))
    disk.write(copy .. "/sediment.backup", "")
    os.remove(copy .. "/sediment.topics")
    for _, options in ipairs { {}, { readonly = true }, { create = false } } do
      local none, message, code = sediment.open(copy, options)
      assert.same({ nil, "corrupt" }, { none, code })
      assert.truthy(message:find "not finished")
    end
    local none, message, code = store:backup(copy)
    assert.same({ nil, "exists" }, { none, code })
    assert.truthy(message:find "not finished")
    assert.falsy(disk.exists(copy .. "/sediment.lock"))
  end)

  it("leaves nothing when it fails", function()
    local store = make()
    support.damaged()
    local other = support.open(path, { readonly = true })
    store:close()
    disk.write(path .. "/t-0/sediment.state", ("?"):rep(1024))
    local none, _, code = other:backup(copy)
    assert.same({ nil, "busy" }, { none, code })
    assert.same({}, disk.list(path:gsub("/store$", ""), "copy"))
  end)

  it("takes damage along as it is", function()
    local store, t = make()
    support.damaged()
    store:close()
    local file = log(path, "t", 10)
    local bytes = disk.read(file)
    local at = disk.batches(bytes)[4].position + 70
    disk.write(file, bytes:sub(1, at) .. "?" .. bytes:sub(at + 2))
    store = support.open(path)
    assert.is_true(store:backup(copy))
    local report = support.open(copy):verify()
    assert.equal(1, #report.problems)
    assert.equal(13, report.problems[1].offset)
    assert.truthy(t)
  end)

  local WRITER = [[
local sediment = require "sediment"
local store = assert(sediment.open(arg[1], { background = false }))
local topic = assert(store:topic("t", { cleanup_policy = "compact", segment_bytes = 4000, min_cleanable_dirty_ratio = 0,
  delete_retention_ms = 0, file_delete_delay_ms = 0, index_interval_bytes = 100 }))
io.stdout:setvbuf "no"
local n = 0
repeat
  for _ = 1, 100 do
    n = n + 1
    assert(topic:append("k" .. n % 37, tostring(n)))
    if n % 50 == 0 then io.write(n, "\n") end
  end
  assert(topic:roll())
  if n % 300 == 0 then assert(topic:compact { force = true }) end
  if n % 500 == 0 then assert(store:maintain()) end
until io.open(arg[2])
io.write "stopped\n"
]]

  -- What the writer had been told before the backup began is in it, whatever was cleaned and deleted on the way.
  it("beside a process that appends, rolls, cleans and deletes is whole", function()
    local stop, out = path .. ".stop", path .. ".out"
    local store = support.open(path)
    assert(store:topic("t", { cleanup_policy = "compact", segment_bytes = 4000 }))
    disk.write(out, "")
    local command = disk.script(path .. ".lua", WRITER)
    assert(disk.run(("{ %s '%s' '%s' >> '%s' 2>&1 || echo failed >> '%s'; } &"):format(command, path, stop, out, out)) == 0)
    local function told() return tonumber(disk.read(out):match "(%d+)\n[^\n]*$" or 0) end
    while told() < 500 do end
    local busy = 0
    for i = 1, 25 do
      local of = i % 2 == 0 and store or support.open(path, { readonly = true })
      local known = told()
      local done, message, code = of:backup(copy .. i)
      assert(done or code == "busy", message)
      busy = busy + (done and 0 or 1)
      if done then
        local s = support.open(copy .. i)
        local report = s:verify()
        assert(report.ok, report.problems[1] and report.problems[1].message)
        local last = {}
        for _, key, value in s:topic("t"):records() do last[key] = tonumber(value) end
        for n = known - 36, known do assert(last["k" .. n % 37] >= n, "a record is missing") end
        s:close()
      end
    end
    assert(busy < 10)
    disk.write(stop, "")
    while not disk.read(out):find "%a" do end
    assert.truthy(disk.read(out):find "stopped")
  end)
end)

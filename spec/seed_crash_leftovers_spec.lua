-- What a crash in a deletion or a swap leaves behind is put right when the log is opened: the old segments or the new ones, never both.
local support = require "support"
local disk = require "disk"

local DIRTY, CLEAN = "a=1 b=1 a=2 c=1 b=2 c- tail=1", "a=2 b=2 c- tail=1"
local EXTENSIONS = { ".log", ".index", ".timeindex" }

describe("opening after a crash", function()
  local path, dir, cleaned

  -- A store with the closed segments 0 and 3 and the active one 6, and a copy of it in which the two are cleaned into one.
  before_each(function()
    path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { cleanup_policy = "compact" })
    local function batch(words)
      local records = {}
      for key, value in words:gmatch "(%w+)=(%w*)" do records[#records + 1] = { key = key, value = value ~= "" and value or nil } end
      assert(topic:append_batch(records))
    end
    batch "a=1 b=1 a=2"
    topic:roll()
    batch "c=1 b=2 c="
    topic:roll()
    batch "tail=1"
    store:close()
    disk.copy(path, path .. ".cleaned")
    dir, cleaned = path .. "/t-0/", path .. ".cleaned/t-0/"
    local other = support.open(path .. ".cleaned")
    topic = other:topic "t"
    assert.equal(1, topic:compact({ force = true }).partitions)
    assert.equal(CLEAN, support.words(topic:records()))
    assert.equal(2, #topic:segments())
    other:close()
  end)
  after_each(support.cleanup)

  local function name(base, extension) return string.format("%020d", base) .. extension end

  -- Puts the files of the cleaned segment under a suffix, or those with the given extensions only.
  local function put_cleaned(suffix, extensions)
    for _, extension in ipairs(extensions or EXTENSIONS) do
      disk.write(dir .. name(0, extension) .. suffix, disk.read(cleaned .. name(0, extension)))
    end
  end

  local function rename(base, to)
    for _, extension in ipairs(EXTENSIONS) do assert(os.rename(dir .. name(base, extension), dir .. name(base, extension) .. to)) end
  end

  -- Opens, checks the content, and that no leftover is there. Returns the topic.
  local function opens_with(words, segments)
    local topic = support.open(path):topic "t"
    assert.equal(words, support.words(topic:records()))
    assert.equal(segments, #topic:segments())
    assert.same({ 0, 7 }, { topic:earliest(), topic:latest() })
    for _, suffix in ipairs { ".deleted", ".cleaned", ".swap" } do assert.same({}, disk.list(dir, suffix)) end
    assert.equal(segments, #disk.list(dir, ".log"))
    assert.equal(segments, #disk.list(dir, ".timeindex"))
    assert.equal(7, (topic:append("z", "1")))
    assert.equal(words .. " z=1", support.words(topic:records()))
    assert.equal(0, topic:stats().partitions[0].corrupt_batches)
    return topic
  end

  it("removes indexes without their log", function()
    for _, extension in ipairs { ".index", ".timeindex" } do disk.write(dir .. name(5, extension), ("\0"):rep(24)) end
    opens_with(DIRTY, 3)
    assert.is_false(disk.exists(dir .. name(5, ".index")))
  end)

  it("removes what was waiting for deletion", function()
    for _, extension in ipairs(EXTENSIONS) do disk.write(dir .. name(0, extension) .. ".deleted", "rest") end
    disk.write(dir .. name(99, ".log") .. ".deleted", "rest")
    opens_with(DIRTY, 3)
  end)

  it("removes an unfinished cleaning", function()
    put_cleaned ".cleaned"
    disk.write(dir .. name(0, ".log") .. ".cleaned", disk.read(cleaned .. name(0, ".log")):sub(1, 40))
    opens_with(DIRTY, 3)
  end)

  it("gives a swap up while one file of it is still named .cleaned", function()
    put_cleaned(".swap", { ".log", ".index" })
    put_cleaned(".cleaned", { ".timeindex" })
    opens_with(DIRTY, 3)
  end)

  it("finishes a swap of which every file is named .swap", function()
    put_cleaned ".swap"
    opens_with(CLEAN, 2)
  end)

  it("finishes it when some of the old segments are renamed already", function()
    put_cleaned ".swap"
    rename(0, ".deleted")
    opens_with(CLEAN, 2)
  end)

  it("finishes it when all of them are", function()
    put_cleaned ".swap"
    rename(0, ".deleted")
    rename(3, ".deleted")
    opens_with(CLEAN, 2)
  end)

  it("finishes it when the log has its name and the indexes have not", function()
    rename(0, ".deleted")
    rename(3, ".deleted")
    put_cleaned("", { ".log" })
    put_cleaned(".swap", { ".index", ".timeindex" })
    opens_with(CLEAN, 2)
  end)

  it("keeps swaps below the lowest .cleaned", function()
    put_cleaned ".swap"
    disk.write(dir .. name(6, ".log") .. ".cleaned", "rest")
    opens_with(CLEAN, 2)
  end)

  it("does it again when it was cut short", function()
    put_cleaned ".swap"
    for _, extension in ipairs(EXTENSIONS) do os.remove(dir .. name(0, extension)) end
    opens_with(CLEAN, 2):roll()
    local topic = support.open(path):topic "t"
    topic:compact { force = true }
    assert.equal("a=2 b=2 c- tail=1 z=1", support.words(topic:records()))
  end)

  it("makes missing indexes anew", function()
    for _, base in ipairs { 0, 3, 6 } do
      os.remove(dir .. name(base, ".index"))
      os.remove(dir .. name(base, ".timeindex"))
    end
    opens_with(DIRTY, 3)
  end)

  it("removes an empty folder of a topic that was being deleted", function()
    local gone = path .. "/t-1.0123456789abcdef0123456789abcdef-delete"
    assert.equal(0, disk.run("mkdir '" .. gone .. "'"))
    opens_with(DIRTY, 3)
  end)
end)

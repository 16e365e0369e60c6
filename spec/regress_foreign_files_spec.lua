-- Folders and files that are not what they seem.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"

describe("a folder that is no store", function()
  after_each(support.cleanup)

  local path
  before_each(function()
    path = support.path()
    os.execute("mkdir '" .. path .. "'")
    disk.write(path .. "/notes.txt", "mine")
  end)

  local function stays()
    assert.same({ "notes.txt" }, disk.list(path))
    assert.equal("mine", disk.read(path .. "/notes.txt"))
  end

  it("is not found by those who may not make one, and nothing is written to it", function()
    for _, options in ipairs { { readonly = true }, { create = false }, { readonly = true, create = false } } do
      options.background = false
      assert.equal("not_found", select(3, sediment.open(path, options)))
      stays()
    end
    assert.equal("not_found", select(3, sediment.open_partition(path)))
    stays()
  end)

  it("that is missing is not found either, and not made", function()
    for _, options in ipairs { { readonly = true }, { create = false } } do
      assert.equal("not_found", select(3, sediment.open(path .. "/missing", options)))
    end
    stays()
  end)

  it("may become one", function()
    local store = support.open(path)
    assert.equal(0, store:topic("t", {}):append("k", "v"))
    assert.equal("mine", disk.read(path .. "/notes.txt"))
  end)
end)

describe("a store whose sediment.topics is gone", function()
  after_each(support.cleanup)

  it("is corrupt, and stays as it is until the file is back", function()
    local path = support.path()
    local store = support.open(path)
    store:topic("t", {}):append("k", "v")
    store:close()
    local file = path .. "/sediment.topics"
    local text = disk.read(file)
    assert(os.remove(file))
    for _, options in ipairs { {}, { readonly = true }, { create = false } } do
      options.background = false
      local none, message, code = sediment.open(path, options)
      assert.same({ nil, "corrupt" }, { none, code })
      assert(message:find("sediment.topics", 1, true), message)
    end
    assert(not disk.exists(file))
    disk.write(file, text)
    assert.equal("k=v", support.words(support.open(path):topic("t"):records()))
  end)
end)

describe("files with the names of segments that cannot be", function()
  after_each(support.cleanup)

  it("are left alone", function()
    local path = support.path()
    local store = support.open(path)
    local topic = store:topic("t", { file_delete_delay_ms = 0 })
    topic:append("k", "v")
    store:close()
    local names = { "09223372036854775807.log", "09223372036854775808.log", "99999999999999999999.log", "0000000000000000001.log",
                    "000000000000000000001.log", "-0000000000000000001.log", "0000000000000000000x.log", "00000000000000000005.txt" }
    for _, name in ipairs(names) do disk.write(path .. "/t-0/" .. name, "not ours") end
    store = support.open(path)
    topic = store:topic "t"
    assert.same({ 0, 1, 1 }, { topic:earliest(), topic:latest(), #topic:segments() })
    assert.equal(1, topic:append("k", "w"))
    assert.equal("k=v k=w", support.words(topic:records()))
    local bare = assert(sediment.open_partition(path .. "/t-0"))
    assert.same({ 0, 2 }, { bare:earliest(), bare:latest() })
    assert.equal("k=v k=w", support.words(bare:records()))
    bare:close()
    support.now = support.now + 10 ^ 10
    assert.equal(0, store:maintain().failed)
    assert.same({ 2, 2 }, { topic:earliest(), topic:latest() })
    for _, name in ipairs(names) do assert.equal("not ours", disk.read(path .. "/t-0/" .. name)) end
  end)
end)

-- The README's program, as pasted, prints what the README says; the methods that it lists are there.
local sediment = require "sediment"
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"

describe("README.md", function()
  local text = disk.read(scripts.root .. "/README.md")
  local program, output = text:match "```lua\n(.-)```%s*```\n(.-)```"

  after_each(support.cleanup)

  it("has a program that prints what it says", function()
    local directory = scripts.directory()
    disk.write(directory .. "/program.lua", program)
    local said, status = scripts.run(directory, "program.lua")
    scripts.remove(directory)
    assert.equal(output, said)
    assert.equal(0, status)
    assert.is_true(select(2, program:gsub("\n", "")) <= 25)
  end)

  it("has a program that reads a partition's folder", function()
    local directory = scripts.directory()
    disk.write(directory .. "/program.lua", program)
    scripts.run(directory, "program.lua")
    scripts.shell("cp -r '" .. directory .. "/price-store/prices-0' '" .. directory .. "'")
    disk.write(directory .. "/partition.lua", text:match "## From Kafka.-```lua\n(.-)```")
    local said, status = scripts.run(directory, "partition.lua")
    scripts.remove(directory)
    assert.equal("2\tEUR/USD\t1.0851\n3\tEUR/JPY\tnil\n", said)
    assert.equal(0, status)
  end)

  it("has a script that the command runs, and command lines that it understands", function()
    local directory = scripts.directory()
    disk.write(directory .. "/program.lua", program)
    disk.write(directory .. "/count.lua", text:match "```lua\n(%-%- count.lua\n.-)```")
    disk.write(directory .. "/topics.lua", "return {}")
    scripts.run(directory, "program.lua")
    local said = {}
    for line in text:gmatch "\n    sediment ([^\n]-)   " do
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      local out, complaint, status = scripts.sediment(directory, (table.unpack or unpack)(words))
      assert.equal(0, status, complaint)
      said[words[1]] = out
    end
    scripts.remove(directory)
    assert.is_true(said.run == "EUR/USD\t1\nEUR/JPY\t1\n" or said.run == "EUR/JPY\t1\nEUR/USD\t1\n", said.run)
    assert.matches("\tEUR/USD\t1.0851\n", said.cat)
    assert.matches("\nprices +1 ", said.topics)
    assert.equal("  prices is not in the file\nnothing to change\n", said.apply)
  end)

  -- "object:method(" and "object.function(" in the first column of a table.
  local function listed(object)
    local names = {}
    for line in text:gmatch "\n(|[^\n]*)" do
      for name in (line:match "^| (.-) |" or ""):gmatch("`" .. object .. "[:.]([%w_]+)%(") do names[name] = true end
    end
    return names
  end

  local function methods(value)
    local names = {}
    for name, f in pairs(getmetatable(value).__index) do
      if type(f) == "function" and not name:find "^_" then names[name] = true end
    end
    return names
  end

  it("lists the methods that there are", function()
    local topic, store = support.topic {}
    local functions = {}
    for name, f in pairs(sediment) do functions[name] = type(f) == "function" or nil end
    assert.same(functions, listed "sediment")
    assert.same(methods(store), listed "store")
    assert.same(methods(topic), listed "topic")
    assert.same(methods(store:table "t"), listed "table")
  end)

  it("lists the codes that there are", function()
    local codes = {}
    for name in disk.read(scripts.root .. "/csrc/base/err.h"):gmatch 'X%([%u_]+, %-%d+, "([%l_]+)"%)' do codes[name] = true end
    codes.misuse, codes.no_memory = nil, nil
    local section = text:match "### Codes\n(.-)\n## "
    for line in section:gmatch "\n| (`[^|]+) |" do
      for code in line:gmatch "`([%l_]+)`" do
        assert.is_true(codes[code], code)
        codes[code] = nil
      end
    end
    assert.same({}, codes)
  end)
end)

-- Secondary indexes of state tables: each has, at any time, what going through all values would find.
local support = require "support"
local of = require "state"

local raised, put = support.raised, of.put

describe("an index of a state table", function()
  local topic, store

  before_each(function()
    topic, store = support.topic { cleanup_policy = "compact", delete_retention_ms = 0 }
  end)
  after_each(support.cleanup)

  local function first_letter(value) return value:sub(1, 1) end

  local function found(state, name, place)
    local list = {}
    for key, value in state:lookup(name, place) do list[#list + 1] = key .. "=" .. value end
    table.sort(list)
    assert.equal(#list, state:count(name, place))
    return table.concat(list, " ")
  end

  it("finds the keys for which its function gave the same", function()
    put(topic, "a=x1 b=x2 c=y1 d=z1 d-")
    local state = store:table("t", { index = { letter = first_letter, size = function(value) return #value end } })
    assert.equal("a=x1 b=x2", found(state, "letter", "x"))
    assert.equal("c=y1", found(state, "letter", "y"))
    assert.equal("", found(state, "letter", "z"))
    assert.equal("", found(state, "letter", nil))
    assert.equal("a=x1 b=x2 c=y1", found(state, "size", 2))
    assert.equal(3, state:count())
  end)

  it("follows", function()
    put(topic, "a=x1 b=x2")
    local state = store:table("t", { index = { letter = first_letter } })
    put(topic, "a=y1 b=x3 c=x4 d=y2 d-")
    assert.equal(5, state:update())
    assert.equal("b=x3 c=x4", found(state, "letter", "x"))
    assert.equal("a=y1", found(state, "letter", "y"))
    put(topic, "b- c-")
    state:update()
    assert.equal("", found(state, "letter", "x"))
  end)

  it("is told the key, and leaves out what it gives nothing for", function()
    put(topic, "a=1 b=2 c=3")
    local state = store:table("t", {
      decode = function(value) return tonumber(value) end,
      index = { odd = function(value, key) return key ~= "c" and value % 2 == 1 or nil end },
    })
    assert.equal("a=1", found(state, "odd", true))
    assert.equal(0, state:count("odd", false))
    put(topic, "a=2 b=3 c=5")
    state:update()
    assert.equal("b=3", found(state, "odd", true))
  end)

  it("leaves what starting over sweeps", function()
    put(topic, "a=x b=x c=y")
    local state = store:table("t", { index = { letter = first_letter } })
    put(topic, "a- c=x")
    topic:roll()
    topic:compact { force = true }
    support.now = support.now + 1
    topic:compact { force = true }
    state:update()
    assert.equal("b=x c=x", found(state, "letter", "x"))
    assert.equal("", found(state, "letter", "y"))
  end)

  it("is there with a snapshot", function()
    put(topic, "a=x b=x c=y")
    local options = { snapshot = true, index = { letter = first_letter } }
    store:table("t", options):close()
    put(topic, "a=y")
    local state = store:table("t", options)
    assert.equal("snapshot", state:stats().origin)
    assert.equal("b=x", found(state, "letter", "x"))
    assert.equal("a=y c=y", found(state, "letter", "y"))
  end)

  it("leaves the table in front of a record that its function raises at", function()
    local bad = true
    put(topic, "a=x")
    local state = store:table("t", { index = { letter = function(value)
      if bad and value == "bad" then error("no letter", 0) end
      return value
    end } })
    put(topic, "a=bad b=x")
    assert.equal("no letter", raised(state.update, state))
    assert.equal("a=x", found(state, "letter", "x"))
    assert.equal("x", state:get "a")
    assert.equal(1, state:offset())
    bad = false
    assert.equal(2, state:update())
    assert.equal("b=x", found(state, "letter", "x"))
    assert.equal("a=bad", found(state, "letter", "bad"))
  end)

  it("takes no nan", function()
    put(topic, "a=x")
    local options = { index = { letter = function() return 0 / 0 end } }
    assert.equal("index 'letter': nan is no key", raised(function() store:table("t", options) end))
  end)

  it("does not depend on values that the program changes", function()
    put(topic, "a=x")
    local state = store:table("t", { decode = function(value) return { value } end, index = { of = function(value) return value[1] end } })
    state:get("a")[1] = "changed"
    put(topic, "a=y")
    state:update()
    assert.equal(0, state:count("of", "x"))
    assert.equal(0, state:count("of", "changed"))
    assert.equal(1, state:count("of", "y"))
  end)

  it("equals what going through all values finds, whatever happened", function()
    math.randomseed(7)
    local state = store:table("t", { index = { letter = first_letter } })
    for _ = 1, 200 do
      for _ = 1, math.random(4) do
        local key = ("abcdef"):sub(math.random(6)):sub(1, 1)
        topic:append(key, math.random(4) > 1 and ("xyz"):sub(math.random(3)):sub(1, 1) .. math.random(9) or nil)
      end
      state:update()
      for _, letter in ipairs { "x", "y", "z" } do
        local expected = {}
        for key, value in state:pairs() do
          if first_letter(value) == letter then expected[#expected + 1] = key .. "=" .. value end
        end
        table.sort(expected)
        assert.equal(table.concat(expected, " "), found(state, "letter", letter))
      end
    end
  end)

  it("checks its arguments", function()
    local state = store:table("t", { index = { letter = first_letter } })
    assert.matches("table_index_spec.lua:%d+: bad argument #1 to 'lookup' %(there is no index 'size'",
                   raised(function() state:lookup("size", 1) end))
    assert.matches("table_index_spec.lua:%d+: bad argument #1 to 'count' %(there is no index 'size'",
                   raised(function() state:count("size", 1) end))
    assert.matches("there is no index 'letter'", raised(function() store:table("t"):lookup("letter", 1) end))
    for expected, index in pairs {
      ["index: table expected, got function"] = print, ["index.a: function expected, got string"] = { a = "b" },
      ["index: strings expected as names of indexes, got number"] = { print },
    } do
      assert.matches("bad argument #2 to 'table' %(" .. expected, raised(function() store:table("t", { index = index }) end))
    end
    state:close()
    assert.matches("use after close", raised(function() state:lookup("letter", "x") end))
  end)
end)

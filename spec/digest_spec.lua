-- core.digest: what `sediment copy` tells two logs apart by.
local core = require "sediment.core"

describe("core.digest", function()
  local function of(record, with_times) return core.digest("", { record }, with_times) end

  it("goes on from call to call, wherever the calls begin", function()
    local list = {}
    for i = 1, 9 do
      list[i] = { key = "k" .. i, value = ("v"):rep(i * 100), timestamp = i, headers = i % 2 == 0 and { { "h", "x" } } or nil }
    end
    local whole = core.digest("", list, true)
    assert.matches("^%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$", whole)
    for cut = 0, 9 do
      local digest = core.digest("", { (table.unpack or unpack)(list, 1, cut) }, true)
      assert.equal(whole, core.digest(digest, { (table.unpack or unpack)(list, cut + 1) }, true))
    end
  end)

  it("is another one for anything that differs", function()
    local records, seen = {
      {}, { key = "" }, { value = "" }, { key = "", value = "" }, { key = "a" }, { value = "a" }, { key = "ab" },
      { key = "a", value = "b" },
      { key = "a", headers = { { "b" } } }, { key = "a", headers = { { "b", "" } } }, { key = "a", headers = { { "", "b" } } },
      { key = "a", headers = { { "b" }, { "b" } } }, { key = "a", headers = { { "b", "b" } } }, { key = ("a"):rep(1000) },
      { key = ("a"):rep(1001) }, { key = "a\0" }, { timestamp = 6 },
    }, {}
    for i, record in ipairs(records) do
      record.timestamp = record.timestamp or 5
      local digest = of(record, true)
      assert.is_nil(seen[digest], i)
      seen[digest] = true
    end
    local one, other = { key = "a", timestamp = 1 }, { key = "b", timestamp = 1 }
    assert.not_equal(core.digest("", { one, other }, true), core.digest("", { other, one }, true))
  end)

  it("leaves times out when it is told to", function()
    assert.equal(of({ key = "a", timestamp = 1 }), of { key = "a", timestamp = 2 })
    assert.not_equal(of({ key = "a", timestamp = 1 }, true), of({ key = "a", timestamp = 2 }, true))
  end)
end)

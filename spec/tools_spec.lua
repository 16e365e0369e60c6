-- What the tools have in common: the numbers that make is given, and signals that end what a tool has started.
local scripts = require "scripts"

local function run(command)
  local said = scripts.shell("{ " .. command .. "; } 2>&1; echo \"status $?\"")
  return (said:gsub("status %d+\n$", "")), tonumber(said:match "status (%d+)\n$")
end

describe("the numbers that make is given", function()
  local function check(value) return run("sh tools/check-numbers.sh SECONDS '60' SEED '" .. value .. "'") end

  it("may be left out", function() assert.same({ "", 0 }, { check "" }) end)
  it("are whole and above 0", function()
    assert.same({ "", 0 }, { check "1" })
    assert.same({ "", 0 }, { check "999999999" })
    for _, bad in ipairs { "abc", "0", "-1", "1.5", "1e3", "1 2", "1000000000", "007" } do
      local said, status = check(bad)
      assert.equal("SEED: a whole number from 1 to 999999999 expected, got '" .. bad .. "'\n", said)
      assert.equal(2, status)
    end
  end)

  it("are looked at before anything else", function()
    for _, target in ipairs { "torture", "kills", "fuzz" } do
      local said = run("make -s " .. target .. " SECONDS=abc CC=false")
      assert.equal("SECONDS: a whole number from 1 to 999999999 expected, got 'abc'", said:match "^[^\n]*")
    end
  end)
end)

describe("a tool that was told to end", function()
  local function ended(command)
    assert.same({ "", 0 }, { run("sh tools/check-interrupt.sh sh -c '. tools/children.sh; " .. command .. "'") })
  end

  it("ends its program", function() ended 'attend sh -c "echo ready; exec sleep 600"' end)
  it("ends its program also while it tells how far that is", function()
    ended 'tell() { echo "on its way"; }; attend sh -c "echo ready; exec sleep 600"'
  end)
  it("has its program's status otherwise", function()
    assert.equal(7, select(2, run "sh -c '. tools/children.sh; attend sh -c \"exit 7\"'"))
    assert.equal(7, select(2, run "sh -c '. tools/children.sh; tell() { :; }; attend sh -c \"exit 7\"'"))
  end)
end)

describe("the check of that", function()
  it("sees what goes on", function()
    local said, status = run "sh tools/check-interrupt.sh sh -c 'trap \"\" TERM; echo ready; touch $TMPDIR/left; exit 1'"
    assert.matches("left behind: left", said)
    assert.equal(1, status)
  end)
end)

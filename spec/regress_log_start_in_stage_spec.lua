-- delete_records may move the log start among records that are gathered but not sealed yet. When all processes died then, the log
-- seemed to end before its start: it was begun anew, and what had been acknowledged was gone.
local support = require "support"
local disk = require "disk"

describe("a log that starts within its stage", function()
  after_each(support.cleanup)

  it("keeps its records when every process dies", function()
    local path = support.path()
    local topic = support.open(path):topic("t", {})
    for i = 0, 3 do topic:append("k" .. i, tostring(i)) end
    assert.equal(2, topic:delete_records(2))
    disk.copy(path, path .. "-after")
    local after = support.open(path .. "-after"):topic "t"
    assert.equal("k2=2 k3=3", support.words(after:records()))
    assert.equal(2, after:earliest())
    assert.equal(4, after:append("k4", "4"))
    after:roll()
    assert.equal("k2=2 k3=3 k4=4", support.words(after:records()))
    assert.equal(0, after:stats().partitions[0].corrupt_batches)
  end)
end)

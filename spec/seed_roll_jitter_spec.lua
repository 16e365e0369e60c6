-- segment.jitter.ms keeps topics that were born together from rolling together.
local support = require "support"

local TOPICS, SEGMENT_MS, JITTER, STEP = 12, 10000, 5000, 50

describe("twelve topics with one segment.ms", function()
  after_each(support.cleanup)

  -- Ages at which each topic's segments rolled: the first and the second one.
  local function roll_ages(jitter)
    local store, topics, ages = support.open(), {}, { {}, {} }
    for i = 1, TOPICS do topics[i] = store:topic("t" .. i, { segment_ms = SEGMENT_MS, segment_jitter_ms = jitter, retention_ms = -1 }) end
    local begin, born, count = support.now, {}, {}
    for t = 0, 2 * SEGMENT_MS + 10 * STEP, STEP do
      support.now = begin + t
      for i, topic in ipairs(topics) do
        topic:append("k", "v")
        local segments = #topic:segments()
        if segments ~= count[i] then
          if count[i] and count[i] <= 2 then ages[count[i]][i] = t - born[i] end
          count[i], born[i] = segments, t
        end
      end
    end
    return ages
  end

  local function distinct(list)
    local seen, n = {}, 0
    for _, v in pairs(list) do
      if not seen[v] then seen[v], n = true, n + 1 end
    end
    return n
  end

  it("roll at one instant without jitter", function()
    local ages = roll_ages(0)
    for round = 1, 2 do
      assert.equal(TOPICS, #ages[round])
      for _, age in ipairs(ages[round]) do assert.equal(SEGMENT_MS + STEP, age) end
    end
  end)

  local function check_spread(ages)
    local low, high = math.huge, -math.huge
    assert.equal(TOPICS, #ages)
    for _, age in ipairs(ages) do
      low, high = math.min(low, age), math.max(high, age)
      assert(age > SEGMENT_MS - JITTER and age <= SEGMENT_MS + STEP, "rolled at " .. age)
    end
    -- A draw at every look would let all roll soon after the earliest instant.
    assert(high - low > JITTER / 4, "spread over " .. high - low)
    assert(distinct(ages) > TOPICS / 2)
  end

  it("are spread over the jitter, each segment by a draw of its own", function()
    local ages, same = roll_ages(JITTER), 0
    check_spread(ages[2])
    for i = 1, TOPICS do
      if ages[1][i] == ages[2][i] then same = same + 1 end
    end
    assert(same < TOPICS / 2)
  end)

  -- The first segment of a partition is made without a draw.
  it("are spread from their first segment on", function()
    check_spread(roll_ages(JITTER)[1])
  end)
end)

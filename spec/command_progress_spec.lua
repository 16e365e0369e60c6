-- How far a run is, by a clock that the spec sets.
local core = require "sediment.core"
local Progress = require "sediment.command.progress"

describe("the progress of a run", function()
  local now, ahead, written
  local monotonic_ms, stderr = core.monotonic_ms, io.stderr

  before_each(function()
    now, ahead, written = 1000, 10000, {}
    core.monotonic_ms = function() return now end
    rawset(io, "stderr", { write = function(_, ...) written[#written + 1] = table.concat { ... } end })
  end)
  after_each(function()
    core.monotonic_ms = monotonic_ms
    rawset(io, "stderr", stderr)
  end)

  local function begin(terminal, quiet)
    local p = Progress.new("run", function() return ahead end, quiet)
    p.terminal, p.width, p.due = terminal, 80, terminal and now or now + 10000
    return p
  end

  -- So many records a second, of 100 bytes, for so long.
  local function work(p, seconds, a_second)
    for _ = 1, seconds * 10 do
      for _ = 1, a_second / 10 do
        ahead = ahead - 1
        p:add { key = ("k"):rep(10), value = ("v"):rep(90) }
      end
      now = now + 100
    end
  end

  it("is a line every ten seconds where there is no terminal", function()
    local p = begin(false)
    work(p, 25, 100)
    assert.same({ "run: 1,001 records, 100/s, 0.0 MB/s, lag 8,999, 1 min 30 s left\n",
      "run: 2,001 records, 100/s, 0.0 MB/s, lag 7,999, 1 min 20 s left\n" }, written)
    p:finish(", and so on")
    assert.equal("run: 2,500 records in 25.0 s (100/s, 0.0 MB/s), and so on\n", written[3])
  end)

  it("is one line on a terminal, at most ten times a second", function()
    local p = begin(true)
    work(p, 25, 100)
    assert.equal(250, #written)
    assert.equal("\r 24% [===          ] 2,491 records, 100/s, 0.0 MB/s, lag 7,509, 1 min 16 s left\27[K", written[250])
    p:erase()
    assert.equal("\r\27[K", written[251])
    p:erase()
    p:finish()
    assert.equal("run: 2,500 records in 25.0 s (100/s, 0.0 MB/s)\n", written[252])
  end)

  it("has room on a narrow terminal and on a wide one", function()
    local function shown(width)
      local p = begin(true)
      p.width = width
      work(p, 0.1, 10)
      return written[#written]
    end
    assert.equal("\r  0% [                    ] 1 record, 1,000/s, 0.1 MB/s, lag 9,999\27[K", shown(200))
    assert.equal("\r  0% 1 record, 1,000/s, 0.1 MB/s, lag 9,998\27[K", shown(50))
    assert.equal("\r  0% 1 record\27[K", shown(14))
  end)

  it("has the speed of the last seconds", function()
    local p = begin(true)
    p.width = 200
    work(p, 10, 100)
    work(p, 5, 500)
    assert.matches("3,[%d]+ records, 500/s, ", written[#written])
    now = now + 60000
    p:tick()
    now = now + 2100
    p:tick()
    assert.matches("records, 0/s, ", written[#written])
  end)

  it("says what is known when there is nothing ahead, or more and more", function()
    ahead = 0
    local p = begin(false)
    now = now + 10000
    p:tick()
    ahead, now = 50, now + 10000
    p:tick()
    assert.same({ "run: 0 records, 0/s, 0.0 MB/s, lag 0\n", "run: 0 records, 0/s, 0.0 MB/s, lag 50\n" }, written)
  end)

  it("is nothing when it is to be quiet", function()
    local p = begin(true, true)
    work(p, 5, 100)
    p:finish()
    assert.same({}, written)
  end)
end)

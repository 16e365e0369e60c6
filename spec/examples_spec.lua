-- The examples as a newcomer runs them: twice, from another working directory. What they print is what the documentation promises.
local disk = require "disk"
local scripts = require "scripts"

describe("an example", function()
  local directory

  before_each(function() directory = scripts.directory() end)
  after_each(function() scripts.remove(directory) end)

  local function run(...)
    local said, status = scripts.run(directory, ...)
    assert.equal(0, status, said)
    return said
  end

  local function says(said, ...)
    for _, text in ipairs { ... } do assert.truthy(said:find(text, 1, true), text .. "\nis missing in\n" .. said) end
  end

  local function count(said, pattern) return select(2, said:gsub(pattern, "")) end

  describe("rates.lua", function()
    local REBUILT = { "one euro, 29 currencies", "USD     1.1172", "JPY     175.68", "GBP     0.8338", "ZAR    18.6455" }

    it("replays, compacts and rebuilds; a second run finds it all", function()
      scripts.shell(("mkdir -p '%s/copy/data' && cp '%s/examples/'*.lua '%s/copy'"):format(directory, scripts.root, directory))
      scripts.shell(("cp '%s'/examples/data/*.gz '%s/copy/data'"):format(scripts.root, directory))
      local first = run "copy/rates.lua"
      says(first, "new store: copy/data/rates-store", "7,126 new days: 221,702 rates and 13 tombstones appended")
      says(first, "compacted: 221,715 records read, 41 kept", (unpack or table.unpack)(REBUILT))
      assert.is_true(count(first, " dirty\n") >= 2, first)
      assert.equal(2, count(first, " active\n"))
      assert.is_nil(first:find "HRK")
      assert.is_nil(first:find "\r")

      local second = run(directory .. "/copy/rates.lua")
      says(second, "found store: ", ": 29 currencies up to 2026-10-30", "\n0 new days: 0 rates and 0 tombstones appended")
      says(second, "nothing to compact", (unpack or table.unpack)(REBUILT))
    end)

    it("appends the days that the topic has not", function()
      local head, rows = nil, {}
      for line in scripts.shell("gzip -dc '" .. scripts.root .. "/examples/data/eurofxref-hist.csv.gz'"):gmatch "[^\n]+" do
        if head then rows[#rows + 1] = line else head = line end
        if #rows == 50 then break end
      end
      local function write(from)
        disk.write(directory .. "/rates.csv", head .. "\n" .. table.concat(rows, "\n", from) .. "\n")
      end
      local script = scripts.root .. "/examples/rates.lua"

      write(3)
      says(run(script, "store", "rates.csv"), "48 new days: ", "29 currencies")
      write(1)
      says(run(script, "store", "rates.csv"), "29 currencies up to 2026-10-28", "2 new days: 58 rates and 0 tombstones", "USD     1.1172")
      says(run(script, "store", "rates.csv"), "29 currencies up to 2026-10-30", "0 new days: ")
    end)

    it("says that a file is missing", function()
      local said, status = scripts.run(directory, scripts.root .. "/examples/rates.lua", "store", "none.csv")
      assert.equal(1, status)
      says(said, "cannot read none.csv")
    end)
  end)

  it("rates_cache.lua keeps a cache, a history and a mirror that was away", function()
    local script, csv = scripts.root .. "/examples/rates_cache.lua", scripts.root .. "/examples/data/eurofxref-hist.csv.gz"
    local first = run(script, "store")
    says(first, "cache: 0 currencies, from the log\n", "2560 days up to 2008\n", "mirror: read them; SKK is 30.126\n",
      "4566 days more, while mirror is away\n", "12 tombstones compacted away\n", "mirror: is back, began anew 1 time; SKK is nil\n",
      "history: 9 segments deleted, now from 2015-06-05 to 2026-10-30\n", "RUB on 2022-02-24: 95.7175\n",
      "cache: 29 currencies, USD 1.1172\n")
    local second = run(script, "store", csv, "2024-12-25", "USD")
    says(second, "cache: 29 currencies, from the snapshot\n", "0 new days\n", "USD on 2024-12-25: 1.0395 (of 2024-12-24)\n")
    says(run(script, "store", csv, "1999-01-04", "USD"), "USD on 1999-01-04: no rate\n")
  end)

  it("cdc.lua follows a database, over restarts and duplicates", function()
    local script, events = scripts.root .. "/examples/cdc.lua", scripts.root .. "/examples/data/customers.ndjson"
    says(run(script, "store", events, "8"), "8 events: 8 applied, 0 known already\n", "6 customers, 0 of them in Portugal:\n")
    says(run(script, "store", events, "31"), "31 events: 18 applied, 13 known already\n")
    local third = run(script, "store", events)
    says(third, "35 events: 2 applied, 33 known already\n", "7 customers, 3 of them in Portugal:\n",
      "  1005  Inês Dias Lopes  ines@example.org\n", "table from the snapshot\n")
    local fresh = run(script, "other", events)
    assert.equal(third:gsub(".-\n", "", 1):gsub("from the %w+", ""), (fresh:gsub(".-\n", "", 1):gsub("from the %w+", "")))
  end)

  it("consumer_offsets.lua tells where the groups of a broker stand", function()
    for _, name in ipairs { "broker-consumer-offsets", "broker-appendtime" } do
      scripts.shell(("tar -xzSf '%s/spec/data/kafka/%s.tar.gz' -C '%s'"):format(scripts.root, name, directory))
    end
    local script = scripts.root .. "/examples/consumer_offsets.lua"
    says(run(script, directory), "GROUP\tTOPIC\tPARTITION\tCURRENT-OFFSET\tLOG-END-OFFSET\tLAG\t", "desk\tstamped\t0\t351\t351\t0\t-\t-\n")
    scripts.shell("rm -r '" .. directory .. "/stamped-0'")
    says(run(script, directory), "desk\tstamped\t0\t351\t-\t-\t-\t-\n")
    local said, status = scripts.run(directory, script)
    assert.equal(2, status)
    says(said, "usage: lua examples/consumer_offsets.lua DIRECTORY")
  end)

  it("extremes.lua finds the highest and the lowest, and goes on with what is new", function()
    local script = scripts.root .. "/examples/extremes.lua"
    local function sediment(...)
      local said, complaint, status = scripts.sediment(directory, ...)
      assert.equal(0, status, complaint)
      return said, complaint
    end
    local head, rows = nil, {}
    for line in scripts.shell("gzip -dc '" .. scripts.root .. "/examples/data/eurofxref-hist.csv.gz'"):gmatch "[^\n]+" do
      if head then rows[#rows + 1] = line else head = line end
    end
    says(sediment("apply", script, "--store", "store"), "+ extremes: 1 partition, cleanup.policy compact", "2 topics made")
    local first, told = sediment("run", script, "--store", "store")
    says(told, "221,702 records in ")
    says(first, "USD  high 1.599 on 2008-07-15  low 0.8252 on 2000-10-26\n", "ZAR  high 21.8788 on 2025-04-11  low 6.0785 on 2000-02-02\n")
    assert.equal(first, (sediment("run", script, "--store", "store")))

    disk.write(directory .. "/old.csv", head .. "\n" .. table.concat(rows, "\n", 3000) .. "\n")
    sediment("apply", script, "--store", "grown")
    says(sediment("run", script, "old.csv", "--store", "grown"), "USD  high 1.599 on 2008-07-15", "ZAR  high 15.2836 on 2014-01-31")
    local after, new = sediment("run", script, "--store", "grown")
    assert.equal(first, after)
    says(new, "sediment run: 92,822 records in ")
  end)

  it("sensors.lua consumes, compacts and deletes, and goes on where it was", function()
    local script = scripts.root .. "/examples/sensors.lua"
    local first = run(script, "store")
    says(first, "follower: from offset 0\n", "alarm: 35 readings above 54 degrees", "latest: attic removed, was 15.0",
      "latest: 721 records read, 3 kept", "segments of readings deleted, 1 tombstone removed", "readings: offsets 720 to 720")
    local second = run(script, "store")
    says(second, "follower: from offset 720\n", "alarm: from offset 720\n", "alarm: 35 readings", "readings: offsets 1440 to 1440")
  end)
end)

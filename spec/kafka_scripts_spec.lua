-- Scripts that went through Kafka, with its answers (spec/kafka/store-scripts made them), through the product: what it reads, where
-- its segments begin and what they weigh, what it refuses, deletes, cleans and finds by time.
local support = require "support"
local disk = require "disk"
local scripts = require "scripts"

local DATA = scripts.root .. "/spec/data/kafka-scripts.tar.gz"
local RUN = scripts.root .. "/spec/kafka/run.lua"

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

-- The script cut where the process is killed; each part begins with what the next process has to be told.
local function processes(script)
  local parts, told, clock, part = {}, {}, 0, {}
  for i, line in ipairs(script) do
    local word, ms = line:match "^(%S+) ?(%S*)"
    if word == "clock" then clock = tonumber(ms) elseif word == "advance" then clock = clock + tonumber(ms) end
    if word == "options" or word == "partition" then told[#told + 1] = line end
    part[#part + 1] = line
    if word == "kill" or i == #script then
      parts[#parts + 1] = table.concat(part, "\n") .. "\n"
      part = { table.concat(told, "\n"), string.format("clock %d", clock) }
    end
  end
  return parts
end

-- What run.lua prints, as blocks: a list of lines for each answer. `bytes`: with the size of each segment. `some`: the script looks at
-- one partition of several, and what went and what was cleaned is told of the whole topic.
local function answers(lines, bytes, some)
  local list, block, segments = {}, {}, {}
  local function answer(line)
    block[#block + 1] = line
    list[#list + 1], block = table.concat(block, "\n"), {}
  end
  for _, line in ipairs(lines) do
    local base, size = line:match "^# segment base=(%d+) bytes=(%d+)"
    local first, last = line:match "^# log (start=%d+) (end=%d+)"
    local refusal = line:match "^# error (%S+)"
    if base then segments[#segments + 1] = bytes and base .. ":" .. size or base
    elseif first then
      block[#block + 1] = "# segments " .. table.concat(segments, " ")
      segments = {}
      answer("# log " .. first .. " " .. last)
    elseif line:find "^# clean" or line:find "^# retain" then
      if not some then answer(line:find "^# clean read" and "# clean" or line) end
    elseif refusal then answer("# error " .. refusal)
    elseif line:find "^#" then answer(line)
    else block[#block + 1] = line end
  end
  assert(#block == 0, "records without an end")
  return list
end

-- The listing beside the script: blocks, the rules that explain answers that are not Kafka's, whether it was compared to its end.
local function expected(lines)
  local list, rules, finished = {}, {}, false
  for _, line in ipairs(lines) do
    local n, rule = line:match "^# answer (%d+) ?r?u?l?e? ?(%S*)$"
    if n then
      list[tonumber(n)], rules[tonumber(n)] = {}, rule
    elseif line == "# end" then finished = true
    else table.insert(list[#list], line) end
  end
  for n, block in ipairs(list) do list[n] = table.concat(block, "\n") end
  return list, rules, finished
end

describe("a script with Kafka's answers", function()
  local folder, names

  setup(function()
    folder = support.path():gsub("store$", "")
    assert.equal(0, disk.run("tar -xzf '" .. DATA .. "' -C '" .. folder .. "'"))
    names = disk.list(folder, ".script")
  end)
  teardown(support.cleanup)

  local function ask(name, script)
    local said = {}
    for n, part in ipairs(processes(script)) do
      local input, output = folder .. "part", folder .. "said"
      disk.write(input, part)
      local killed = part:find "\nkill\n$" ~= nil
      local status = disk.run(string.format("%s '%s' '%s%s-store' t < '%s' > '%s' 2> '%serrors'; s=$?; [ $s = %d ]", disk.lua(), RUN,
        folder, name, input, output, folder, killed and 137 or 0))
      for _, line in ipairs(lines_of(output)) do said[#said + 1] = line end
      assert.equal(0, status, name .. ", process " .. n .. ": " .. disk.read(folder .. "errors"))
    end
    os.execute("rm -rf '" .. folder .. name .. "-store'")
    return said
  end

  it("is answered by Sediment in the same way", function()
    local compared, unsupported = 0, 0
    for _, file in ipairs(names) do
      local name = file:match "^%d+"
      local script = lines_of(folder .. file)
      local theirs, rules, finished = expected(lines_of(folder .. name .. ".kafka"))
      local text = disk.read(folder .. name .. ".kafka")
      local some = disk.read(folder .. file):find "\npartition " ~= nil
      local ours = answers(ask(name, script), text:find "\n# segments %d+:" ~= nil, some)
      if table.concat(ours, "\n"):find "# error unsupported" then     -- a codec that is not built in
        unsupported = unsupported + 1
      else
        for n, block in ipairs(theirs) do
          assert(block == ours[n], name .. ", answer " .. n .. " " .. rules[n] .. "\nKafka:\n" .. block .. "\nours:\n" .. tostring(ours[n]))
          compared = compared + 1
        end
        if finished then assert.equal(#theirs, #ours, name) end
      end
    end
    assert.is_true(#names >= 50)
    assert.is_true(compared > 500 and unsupported < #names / 2)
  end)
end)

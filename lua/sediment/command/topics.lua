-- sediment topics: what topics there are, and one of them in detail.
local arguments = require "sediment.command.arguments"
local stores = require "sediment.command.stores"
local text = require "sediment.command.text"

local topics = { summary = "List topics, or describe one." }

function topics.define(command)
  command:argument("topic", "The topic to describe: its partitions, and every config with where it comes from."):argname("TOPIC"):args "?"
  arguments.store(command)
end

-- A cluster does not tell all of it.
local function grouped(n) return n and text.grouped(n) or "-" end
local function size(n) return n and text.size(n) or "-" end
local function percent(ratio) return ratio and ("%.0f%%"):format(ratio * 100) or "-" end

local function row_of(name, stats, config)
  local partitions, records, bytes, segments = 0, 0, 0, 0
  for _, s in pairs(stats.partitions) do
    partitions, bytes, segments = partitions + 1, s.size and bytes + s.size, s.segments and segments + s.segments
    records = records + s.log_end_offset - s.log_start_offset
  end
  return { name, text.grouped(partitions), grouped(segments), text.grouped(records), size(bytes), config["cleanup.policy"] }
end

local function list(store)
  local names, message, code = store:topics()
  if not names then return nil, message, code end
  local rows = { { "topic", "partitions", "segments", "offsets", "size", "cleanup.policy" } }
  for _, name in ipairs(names) do
    local topic, stats, config
    topic, message, code = store:topic(name)
    if topic then stats, message, code = topic:stats() end
    if stats then config, message, code = topic:config() end
    if config then rows[#rows + 1] = row_of(name, stats, config)
    elseif code ~= "unknown_topic" then return nil, message, code end           -- else it was deleted just now
  end
  if #rows > 1 then text.print_rows(rows, { false, true, true, true, true }) end
  return 0
end

local function print_partitions(stats)
  local rows = { { "partition", "log start", "log end", "durable", "segments", "size", "dirty" } }
  for p = 0, #stats.partitions do
    local s = stats.partitions[p]
    rows[#rows + 1] = { ("%d"):format(p), text.grouped(s.log_start_offset), text.grouped(s.log_end_offset), grouped(s.durable_offset),
                        grouped(s.segments), size(s.size), percent(s.dirty_ratio) }
  end
  text.print_rows(rows, { true, true, true, true, true, true, true })
end

local function print_configs(configs)
  local names, rows = {}, { { "config", "value", "from" } }
  for name in pairs(configs) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do rows[#rows + 1] = { name, text.value(configs[name].value), configs[name].source } end
  text.print_rows(rows, {})
end

local function describe(store, name)
  local topic, message, code = store:topic(name)
  if not topic then return nil, message, code end
  local stats, configs
  stats, message, code = topic:stats()
  if stats then configs, message, code = topic:describe() end
  if not configs then return nil, message, code end
  print_partitions(stats)
  print()
  print_configs(configs)
  return 0
end

function topics.execute(given)
  return stores.with(given, { readonly = true }, function(store)
    if given.topic then return describe(store, given.topic) end
    return list(store)
  end)
end

return topics

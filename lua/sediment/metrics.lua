--- What a store tells of itself, in Prometheus' text format.
---
--- A series a partition, named after the field of its stats; `uncleanable` and `cleaned` follow what Kafka's log cleaner reports
--- (uncleanable-partitions-count, uncleanable-bytes, time-since-last-run-ms).
local check_store = require("sediment.check").store
local groups = require "sediment.groups"

local metrics = {}

local function flag(value) return value and 1 or 0 end

-- { name, type, help, value of a partition's stats; nil: none }
local PARTITION = {
  { "log_start_offset", "gauge", "First offset that can be read.", function(s) return s.log_start_offset end },
  { "log_end_offset", "gauge", "Offset that the next record gets.", function(s) return s.log_end_offset end },
  { "durable_offset", "gauge", "Everything below survives a loss of power.", function(s) return s.durable_offset end },
  { "size_bytes", "gauge", "Bytes of all segments, and of what is still in memory.", function(s) return s.size end },
  { "segments", "gauge", "Segments, the active one included.", function(s) return s.segments end },
  { "clean_offset", "gauge", "Where the next cleaning begins.", function(s) return s.clean_offset end },
  { "dirty_ratio", "gauge", "Share of bytes that cleaning has not seen; 0 without compaction.", function(s) return s.dirty_ratio end },
  { "uncleanable", "gauge", "1: the last cleaning failed.", function(s) return flag(s.uncleanable) end },
  { "cleaned_timestamp_seconds", "gauge", "When a cleaning ended well last.",
    function(s) return s.cleaned_ms >= 0 and s.cleaned_ms / 1000 or nil end },
  { "truncated_bytes", "gauge", "Cut from the tail at the last opening.", function(s) return s.truncated_bytes end },
  { "corrupt_batches_total", "counter", "Times that recovery or cleaning met a damaged batch.", function(s) return s.corrupt_batches end },
  { "keyless_dropped_total", "counter", "Records without a key that cleaning dropped.", function(s) return s.keyless_dropped end },
}

local function number(value)
  if value == math.floor(value) and math.abs(value) < 2^53 then return ("%d"):format(value) end
  return ("%.15g"):format(value)
end

local function head(lines, name, kind, help)
  lines[#lines + 1] = ("# HELP sediment_%s %s"):format(name, help)
  lines[#lines + 1] = ("# TYPE sediment_%s %s"):format(name, kind)
end

local function gauge(lines, name, help, value)
  head(lines, name, "gauge", help)
  lines[#lines + 1] = ("sediment_%s %s"):format(name, number(value))
end

-- Every partition as { topic, number, stats }, by topic's name and number.
local function sorted(topics)
  local names, list = {}, {}
  for name in pairs(topics) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local partitions = topics[name].partitions
    local p = 0
    while partitions[p] do
      list[#list + 1] = { name, p, partitions[p] }
      p = p + 1
    end
  end
  return list, #names
end

-- A label's value: groups have any name.
local function quoted(text) return '"' .. text:gsub("[\\\"\n]", { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }) .. '"' end

-- Commits as lines "labels, offset, lag", sorted; one that is ahead of its log, as after a loss of power, has no lag.
local function commits(found, topics)
  local rows = {}
  for group, of in pairs(found) do
    for topic, partitions in pairs(of.topics) do
      for p, commit in pairs(partitions) do
        local stats = topics[topic] and topics[topic].partitions[p]
        local labels = ("{group=%s,topic=\"%s\",partition=\"%d\"}"):format(quoted(group), topic, p)
        local lag = stats and math.max(0, stats.log_end_offset - math.max(commit.offset, stats.log_start_offset))
        if stats then rows[#rows + 1] = { labels, commit.offset, lag } end
      end
    end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

local function add_groups(lines, found, topics)
  local rows = commits(found, topics)
  if #rows == 0 then return end
  head(lines, "consumer_group_offset", "gauge", "What the group has committed.")
  for _, row in ipairs(rows) do lines[#lines + 1] = ("sediment_consumer_group_offset%s %s"):format(row[1], number(row[2])) end
  head(lines, "consumer_group_lag", "gauge", "Offsets behind that commit.")
  for _, row in ipairs(rows) do lines[#lines + 1] = ("sediment_consumer_group_lag%s %s"):format(row[1], number(row[3])) end
end

-- The text of a store's stats, and of its groups.
local function text_of(stats, found)
  local list, topics = sorted(stats.topics)
  local lines, uncleanable, bytes, unretained = {}, 0, 0, 0
  for _, metric in ipairs(PARTITION) do
    local name, kind, help, of = metric[1], metric[2], metric[3], metric[4]
    head(lines, name, kind, help)
    for _, item in ipairs(list) do
      local value = of(item[3])
      if value then lines[#lines + 1] = ('sediment_%s{topic="%s",partition="%d"} %s'):format(name, item[1], item[2], number(value)) end
    end
  end
  for _, item in ipairs(list) do
    if item[3].uncleanable then uncleanable, bytes = uncleanable + 1, bytes + item[3].size end
    if item[3].retention_failed then unretained = unretained + 1 end
  end
  add_groups(lines, found, stats.topics)
  gauge(lines, "topics", "Topics.", topics)
  gauge(lines, "partitions", "Partitions.", #list)
  gauge(lines, "uncleanable_partitions", "Partitions whose last cleaning failed.", uncleanable)
  gauge(lines, "uncleanable_bytes", "Bytes of those.", bytes)
  gauge(lines, "unretained_partitions", "Partitions whose last retention failed.", unretained)
  return table.concat(lines, "\n") .. "\n"
end

-- store:metrics(); described in sediment/types.lua.
function metrics.of(store)
  check_store(store, "metrics")
  local stats, message, code = store:stats()
  if not stats then return nil, message, code end
  local found
  found, message, code = groups.look(store)
  if not found then return nil, message, code end
  return text_of(stats, found)
end

return metrics

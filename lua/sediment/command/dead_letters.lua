-- Records that a script has failed on, put aside into a topic: as they were, with headers that say where they are from and why, under the
-- names that Kafka Connect gives them. Their time is that of the append, so that retention does not count them as old at once.
local dead_letters = {}

local PREFIX = "__connect.errors."

local function headers_of(record, message)
  local list = {}
  for i, header in ipairs(record.headers or {}) do list[i] = header end
  for _, header in ipairs {
    { "topic", record.topic }, { "partition", ("%d"):format(record.partition) }, { "offset", ("%.0f"):format(record.offset) },
    { "exception.message", message },
  } do
    list[#list + 1] = { PREFIX .. header[1], header[2] }
  end
  return list
end

--- The topic; made with the store's defaults when it is missing. nil, message, code.
function dead_letters.open(store, name) return store:topic(name, {}) end

--- true, or nil, message, code.
function dead_letters.append(topic, record, message)
  local offset, why, code = topic:append(record.key, record.value, { headers = headers_of(record, message) })
  if not offset then return nil, why, code end
  return true
end

return dead_letters

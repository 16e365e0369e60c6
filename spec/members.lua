-- What specs of consumers share.
local members = {}

--- Appends the values v<from> to v<to>, with keys k..., to the partitions 0 and 1 in turn.
function members.fill(topic, from, to)
  for i = from, to do topic:append("k" .. i, "v" .. i, { partition = i % 2 }) end
end

--- A consumer; of the topic t, unless the options say otherwise.
function members.consumer(store, options)
  options = options or {}
  options.topics = options.topics or { "t" }
  return assert(store:consumer(options))
end

--- "partition:offset" of each record, with blanks between.
function members.places(list)
  local out = {}
  for i, r in ipairs(list) do out[i] = r.partition .. ":" .. r.offset end
  return table.concat(out, " ")
end

return members

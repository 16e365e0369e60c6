-- Secondary indexes of a state table: which keys have a value for which a function of the user's gives the same.
--
-- Invariant: between two changes of the table each index has every key that has a value and that its function gave something for, under
-- that, and no other. What the functions give for a new value is asked for before anything changes, since they may raise; they are never
-- asked about an old value, which the program may have changed since.
local table_index = {}

--- Empty indexes, by name. `functions`: name -> function(value, key) that gives the key in the index, nil: none.
function table_index.new(functions)
  local indexes = {}
  for name, of in pairs(functions) do
    indexes[name] = {
      of = of,
      coming = nil,                       -- what it gave for the value that comes
      places = {},                        -- key -> where it is
      groups = {}, sizes = {},            -- where -> set of keys; how many
    }
  end
  return indexes
end

--- Asks for the places of a key whose value will be `value`; nil: it will have none.
function table_index.look(indexes, key, value)
  for name, index in pairs(indexes) do
    local place = nil
    if value ~= nil then place = index.of(value, key) end
    if place ~= place then error("index '" .. name .. "': nan is no key", 0) end
    index.coming = place
  end
end

local function leave(index, key, place)
  local group = index.groups[place]
  if not (group and group[key]) then return end
  group[key] = nil
  index.sizes[place] = index.sizes[place] - 1
  if index.sizes[place] == 0 then index.groups[place], index.sizes[place] = nil, nil end
end

local function enter(index, key, place)
  local group = index.groups[place] or {}
  if group[key] then return end
  group[key] = true
  index.groups[place], index.sizes[place] = group, (index.sizes[place] or 0) + 1
end

--- Moves a key to where `look` was told. May be done again when memory was short.
function table_index.move(indexes, key)
  for _, index in pairs(indexes) do
    local was, now = index.places[key], index.coming
    if was ~= nil and was ~= now then leave(index, key, was) end
    if now ~= nil then enter(index, key, now) end
    index.places[key] = now
  end
end

local NONE = {}

--- The set of keys at a place, and how many; nil: there is no index of that name.
function table_index.at(indexes, name, place)
  local index = indexes and indexes[name]
  if not index then return nil end
  if place == nil then return NONE, 0 end
  return index.groups[place] or NONE, index.sizes[place] or 0
end

return table_index

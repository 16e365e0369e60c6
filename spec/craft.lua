-- Partition directories that no append makes: batches of Sediment's own at offsets that a spec chooses, in segments that it chooses, for
-- store:import. It can be done because no CRC covers a batch's base offset.
local support = require "support"
local disk = require "disk"

local craft = {}

local LARGEST = { max_message_bytes = 2 ^ 31 - 1, segment_bytes = 2 ^ 31 - 1, retention_ms = -1 }

--- The bytes of one batch with these records, at offset 0.
function craft.batch(records, options)
  local topic, store = support.topic(LARGEST)
  assert(topic:append_batch(records, options))
  local bytes = disk.read(topic:segments()[1].path)
  store:close()
  return bytes
end

--- The same batch at another offset.
function craft.at(offset, batch)
  local bytes = {}
  for i = 8, 1, -1 do
    bytes[i] = string.char(offset % 256)
    offset = (offset - offset % 256) / 256
  end
  return table.concat(bytes) .. batch:sub(9)
end

--- A batch of one record at an offset.
function craft.record(offset, key, value, timestamp)
  return craft.at(offset, craft.batch { { key = key, value = value, timestamp = timestamp } })
end

--- A directory for store:import with a .log for each base offset; returns it, and the folder for the checkpoints beside it.
function craft.directory(segments)
  local folder = support.foreign()
  local dir = folder .. "t-0/"
  assert(disk.run("mkdir '" .. dir .. "'") == 0)
  for base, bytes in pairs(segments) do disk.write(dir .. disk.log(base), bytes) end
  return dir:sub(1, -2), folder
end

--- Imports the directory as topic t of a store of its own; also returns that, and its path.
function craft.import(dir, config)
  local path = support.path()
  local store = support.open(path)
  local topic = assert(store:topic("t", config))
  assert(store:import("t", dir))
  return topic, store, path
end

-- ---- sparse files: batches of zeros, of which only the first bytes are on the disk ----

local HEAD, BLOCK = 100, 2 ^ 24
local heads = {}

-- The first bytes of a batch of `size` bytes, at least 8 KiB; zeros follow.
local function head(key, size)
  local name = key .. size
  if not heads[name] then
    local n = size - 61 - 5 - #key - 2 * (size < 2 ^ 20 and 3 or 4)         -- two lengths of that many bytes
    local bytes = craft.batch { { key = key, value = ("\0"):rep(n) } }
    assert(#bytes == size, "another size will do")
    heads[name] = bytes:sub(1, HEAD)
  end
  return heads[name]
end

--- Writes a .log of `size` bytes to `path`: batches of 16 MiB, and a last one of what is left. Returns the offset behind them.
function craft.sparse(path, base, size, key)
  support.damaged()                                           -- which the store is not, but too large to be kept
  local full = math.ceil(size / BLOCK) - 1
  local f = assert(io.open(path, "wb"))
  for i = 0, full do
    f:seek("set", i * BLOCK)
    f:write(craft.at(base + i, head(key, i < full and BLOCK or size - full * BLOCK)))
  end
  f:close()
  assert(disk.run(("truncate -s %.0f '%s'"):format(size, path)) == 0)
  return base + full + 1
end

return craft

-- What specs do to a store behind its back: read and write files, list folders, decode batches, run a Lua of their own.
local disk = {}

function disk.read(path)
  local f = assert(io.open(path, "rb"))
  local bytes = f:read "*a"
  f:close()
  return bytes
end

function disk.write(path, bytes)
  local f = assert(io.open(path, "wb"))
  assert(f:write(bytes))
  f:close()
end

function disk.exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

--- Sorted names in a folder that contain the plain text `part`.
function disk.list(path, part)
  local names = {}
  local pipe = assert(io.popen("ls -A '" .. path .. "'"))
  for name in pipe:lines() do
    if not part or name:find(part, 1, true) then names[#names + 1] = name end
  end
  pipe:close()
  table.sort(names)
  return names
end

function disk.log(base) return string.format("%020d.log", base) end

--- Copies a folder as a crash would leave it, without the marks of who is alive.
function disk.copy(from, to) assert(os.execute("cp -r '" .. from .. "' '" .. to .. "'")) end

-- ---- record batches ----

local function unsigned(s, at, n)
  local v = 0
  for i = at, at + n - 1 do v = v * 256 + s:byte(i) end
  return v
end

-- Exact within 2^53, which is all that specs write.
local function signed(s, at, n)
  local v = unsigned(s, at, n)
  if s:byte(at) < 128 then return v end
  local flipped = 0
  for i = at, at + n - 1 do flipped = flipped * 256 + (255 - s:byte(i)) end
  return -flipped - 1
end

local function varint(s, at)
  local v, scale = 0, 1
  while s:byte(at) >= 128 do v, scale, at = v + s:byte(at) % 128 * scale, scale * 128, at + 1 end
  v, at = v + s:byte(at) * scale, at + 1
  return v % 2 == 0 and v / 2 or -(v + 1) / 2, at
end

local function field(s, at)
  local n
  n, at = varint(s, at)
  if n < 0 then return nil, at end
  return s:sub(at, at + n - 1), at + n
end

local function whole(v) return math.floor(v) end

local function record(s, at, batch)
  local size, delta, count
  local r = {}
  size, at = varint(s, at)
  local following = at + size
  delta, at = varint(s, at + 1)
  r.timestamp = whole(batch.base_timestamp + delta)
  delta, at = varint(s, at)
  r.offset = whole(batch.base_offset + delta)
  r.key, at = field(s, at)
  r.value, at = field(s, at)
  count, at = varint(s, at)
  assert(count > 0 or at == following, "a record ends where its length says")
  return r, following
end

--- The batches of a .log's bytes, each with base_offset, last_offset, size, position, attributes, horizon, base_timestamp, max_timestamp,
--- count, codec and, where that is 0, records. Fails unless they fill it to the last byte.
function disk.batches(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    assert(at + 60 <= #bytes, "a whole header")
    local b = { position = at - 1, base_offset = signed(bytes, at, 8), size = 12 + unsigned(bytes, at + 8, 4), magic = bytes:byte(at + 16) }
    assert(b.size >= 61 and at + b.size - 1 <= #bytes, "a whole batch")
    assert(b.magic == 2, "magic 2")
    b.attributes = unsigned(bytes, at + 21, 2)
    b.last_offset = b.base_offset + signed(bytes, at + 23, 4)
    b.base_timestamp, b.max_timestamp = signed(bytes, at + 27, 8), signed(bytes, at + 35, 8)
    b.count = signed(bytes, at + 57, 4)
    b.horizon = whole(b.attributes / 64) % 2 == 1 and b.base_timestamp or nil
    b.codec = b.attributes % 8
    if b.codec == 0 then
      b.records = {}
      local p = at + 61
      for i = 1, b.count do b.records[i], p = record(bytes, p, b) end
      assert(p == at + b.size, "the records fill the batch")
    end
    list[#list + 1] = b
    at = at + b.size
  end
  return list
end

--- What a folder and those in it hold: sizes, times, numbers and bytes of all files but those named `but`.
function disk.fingerprint(dir, but)
  local find = "find . -type f ! -name '" .. (but or "") .. "'"
  local p = io.popen("cd '" .. dir .. "' && " .. find .. " -printf '%p %s %T@ %i\\n' | sort && " .. find .. " | sort | xargs cat | cksum")
  local text = p:read "*a"
  p:close()
  assert(#text > 100)
  return text
end

-- ---- other processes ----

--- The Lua that runs this spec.
function disk.lua() return os.getenv "SEDIMENT_LUA" or (rawget(_G, "jit") and "luajit" or "lua5.4") end

--- Writes a script that other processes run; returns the shell command for it. `arg` has what is given on the command line.
function disk.script(path, text)
  disk.write(path, text)
  return disk.lua() .. " '" .. path .. "'"
end

--- The exit status of a shell command, the same on both Luas.
function disk.run(command)
  local first, _, status = os.execute(command)
  if type(first) == "number" then return first > 255 and math.floor(first / 256) or first end
  return first and 0 or status
end

return disk

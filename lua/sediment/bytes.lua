-- Numbers as bytes, big endian, and back, the same on both Luas: Kafka's records of its own topics are made of them.
local bytes = {}

local char, byte, floor = string.char, string.byte, math.floor

local function unsigned(n, size)
  local out = {}
  for i = size, 1, -1 do
    out[i] = n % 256
    n = floor(n / 256)
  end
  return char((table.unpack or unpack)(out))
end

function bytes.i16(n) return unsigned(n % 0x10000, 2) end

function bytes.i32(n) return unsigned(n % 0x100000000, 4) end

--- Whole numbers within 2^53.
function bytes.i64(n)
  local high = floor(n / 0x100000000)
  return unsigned(high % 0x100000000, 4) .. unsigned(n - high * 0x100000000, 4)
end

--- A varint without sign.
function bytes.varint(n)
  local out = {}
  while n >= 0x80 do
    out[#out + 1] = char(n % 0x80 + 0x80)
    n = floor(n / 0x80)
  end
  return table.concat(out) .. char(n)
end

--- A string behind its length.
function bytes.text(s) return bytes.i16(#s) .. s end

-- -------------------------------------------------------------------------------------------------------------------------------- reading

local Reader = {}
Reader.__index = Reader

--- Reads a string from its first byte on. Every method answers nil once the bytes are too few: only the last result need be looked at.
function bytes.reader(s) return setmetatable({ s = s, at = 1 }, Reader) end

function Reader:take(n)
  if not self.at or n < 0 or self.at + n - 1 > #self.s then
    self.at = nil
    return nil
  end
  self.at = self.at + n
  return self.s:sub(self.at - n, self.at - 1)
end

local function number(self, size)
  local s = self:take(size)
  if not s then return nil end
  local n = 0
  for i = 1, size do n = n * 256 + byte(s, i) end
  return n
end

local function signed(self, size)
  local n = number(self, size)
  local half = 2 ^ (8 * size - 1)
  return n and (n >= half and floor(n - 2 * half) or n)
end

function Reader:i16() return signed(self, 2) end

function Reader:i32() return signed(self, 4) end

--- Beyond 2^53 it is rounded.
function Reader:i64()
  local high, low = signed(self, 4), number(self, 4)
  return low and high * 0x100000000 + low
end

function Reader:varint()
  local n, scale = 0, 1
  repeat
    local b = number(self, 1)
    if not b or scale > 0x10000000 then
      self.at = nil
      return nil
    end
    n = n + b % 0x80 * scale
    scale = scale * 0x80
  until b < 0x80
  return n
end

function Reader:text() return self:take(self:i16() or -1) end

return bytes

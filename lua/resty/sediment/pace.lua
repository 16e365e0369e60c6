-- Work in pieces: who goes through many records tells the pace of each, and after a piece of work it lets other requests run, where the
-- phase can.
local phase = require "resty.sediment.phase"

local PIECE = 512                         -- records of no size
local BYTES_PER_RECORD = 256              -- as many bytes cost about as much as a record does

-- The function to call for each record, with the bytes of its value.
local function new()
  local done = 0
  return function(bytes)
    done = done + 1 + bytes / BYTES_PER_RECORD
    if done < PIECE then return end
    done = 0
    if phase.can_yield() then ngx.sleep(0) end
  end
end

return { new = new }

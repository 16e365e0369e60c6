---@meta
-- Annotations (LuaCATS) and reference of what topic:append_async takes and gives. Nothing requires this file.
-- luacheck: ignore 212

---@class sediment.async_options: sediment.append_options
---@field on_done? fun(offset: integer?, partition: integer|string, code?: sediment.code) is told the result, once, inside deliver, wait,
---flush or close, and never elsewhere, in the order in which the results have come. What it raises comes out of that call; the others have
---their turn in the next

---@class sediment.pending
local pending = {} -- luacheck: ignore 241

---Whether the result is there. Never waits.
---@return boolean
function pending:done() end

---The result, the same at each call; waits for it.
---@param timeout_ms? integer for ever when left out; on a cluster there is a result after the store's timeout_ms
---@return integer? offset
---@return integer|string partition or the message
---@return sediment.code? code as append's. `timeout` while done() is false says: not yet
function pending:wait(timeout_ms) end

-- Handles: what stands in a worker for a store or a topic of the plain module, and hands calls on to it.
--
-- One that was made in init_by_lua* has nothing behind it: it remembers what it was given, and opens when it is first used in a worker.
local append_async = require "sediment.append_async"
local core = require "sediment.core"
local sediment = require "sediment"
local check = require "sediment.check"
local phase = require "resty.sediment.phase"

local handle = {}

local STEP = 0.001                        -- seconds

-- The classes. A store has path, options, and once it is open `plain`; a topic its store's handle, name, the config that it was given, and
-- `plain`.
handle.Store = { __name = "resty.sediment.store" }
handle.Topic = { __name = "resty.sediment.topic" }
handle.Store.__index = handle.Store
handle.Topic.__index = handle.Topic

-- -------------------------------------------------------------------------------------------------------------------------------- errors

-- The results of a pcall of a plain method, as the last thing that a method of ours does: that leaves its caller the nearest.
function handle.relay(call, ...) return check.relay_to(2, call, ...) end

function handle.check_self(self, class, call, level)
  if getmetatable(self) == class then return end
  error(("bad argument #1 to '%s' (%s expected, got %s; call it with ':')"):format(call, class.__name, type(self)), level + 1)
end

-- ------------------------------------------------------------------------------------------------------------------------------- opening

-- core.flush_poll for those who wait for an append that is under way: other requests run meanwhile.
local function flush_poll(topic, partition, ticket, ms)
  if ms == 0 or not phase.can_yield() then return core.flush_poll(topic, partition, ticket, ms) end
  ngx.sleep(STEP)
  return core.flush_poll(topic, partition, ticket)
end

-- sediment.open, for use in a worker.
function handle.open_plain(path, options)
  local store, message, code = sediment.open(path, options)
  if not store then return nil, message, code end
  local reports = append_async.reports(store)
  reports.to_wait, reports.flush_poll = phase.to_wait, flush_poll
  return store
end

-- The plain store behind a handle; nil, message, code when it cannot be opened. Raises in the master, `level` above.
function handle.plain_store(self, call, level)
  level = level or 3
  handle.check_self(self, handle.Store, call, level)
  if self.plain then return self.plain end
  phase.refuse_init(call, level)
  if self.closed then error("use after close: the store is closed", level) end
  local store, message, code = handle.open_plain(self.path, self.options)
  self.plain = store
  return store, message, code
end

-- A topic that was asked for in init_by_lua*: with the store's first use in a worker it is opened, and so made, since tables and
-- consumers find it by its name.
function handle.remember(store, topic)
  store.remembered = store.remembered or {}
  table.insert(store.remembered, topic)
end

-- Opens those. nil, message, code when one cannot be opened.
function handle.open_remembered(store)
  local topics = store.remembered or {}
  while #topics > 0 do
    local plain, message, code = handle.plain_topic(topics[#topics], "topic")
    if not plain then return nil, message, code end
    topics[#topics] = nil
  end
  return true
end

-- The same of a topic.
function handle.plain_topic(self, call)
  handle.check_self(self, handle.Topic, call, 3)
  if self.plain then return self.plain end
  local store, message, code = handle.plain_store(self.store, call, 4)
  if not store then return nil, message, code end
  self.plain, message, code = store:topic(self.name, self.given)
  return self.plain, message, code
end

-- Gives a class the methods named in `names` as they are, after `allow`, which refuses phases, if it is given.
function handle.hand_on(class, plain_methods, plain, names, allow)
  for name in names:gmatch "%S+" do
    local method = plain_methods[name]
    class[name] = function(self, ...)
      local object, message, code = plain(self, name)
      if not object then return nil, message, code end
      if allow then allow(name, 2) end
      return handle.relay(name, pcall(method, object, ...))
    end
  end
end

return handle

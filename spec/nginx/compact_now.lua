-- What docs/openresty.md runs in a thread of nginx's: the plain module, in a Lua state of its own.
return { run = function(path, name)
  local store = assert(require("sediment").open(path))
  local topic = assert(store:topic(name))
  assert(topic:roll())
  return assert(topic:compact { force = true }).records_written
end }

rockspec_format = "3.0"
package = "sediment"
version = "scm-1"
source = {
  -- For `luarocks make` in a checkout, which fetches nothing; a release names its tag here.
  url = "git+file://.",
}
description = {
  summary = "An embedded log store with Apache Kafka's storage semantics and bytes on disk",
  detailed = [[
Topics of keyed records in append-only segments, retention by time and size, log compaction by key with tombstones, consumer groups,
and state tables rebuilt from compacted topics, in Apache Kafka's own on-disk format. For Lua 5.4, LuaJIT and OpenResty.]],
  license = "MIT",
  maintainer = "Sediment authors",
  labels = { "database", "log", "kafka", "openresty" },
}
supported_platforms = { "linux" }
dependencies = {
  "lua >= 5.1, < 5.5",
}
external_dependencies = {
  XXHASH = { header = "xxhash.h" },
}
build = {
  type = "builtin",
  -- The files below are kept by `make rockspec`; `make test` checks them against the tree.
  modules = {
  },
}
test_dependencies = {
  "busted",
}
test = {
  type = "busted",
}

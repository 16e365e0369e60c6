rockspec_format = "3.0"
package = "sediment-kafka"
version = "scm-1"
source = {
  -- For `luarocks make` in a checkout, which fetches nothing; a release names its tag here.
  url = "git+file://.",
}
description = {
  summary = "Sediment's stores on a Kafka cluster, over librdkafka",
  detailed = [[
sediment.open "kafka://host:port": topics, consumers and state tables of a Kafka cluster by the same calls as in a store of Sediment's.]],
  license = "MIT",
  maintainer = "Sediment authors",
  labels = { "database", "log", "kafka" },
}
supported_platforms = { "linux" }
dependencies = {
  "lua >= 5.1, < 5.5",
  "sediment",
}
external_dependencies = {
  RDKAFKA = { header = "librdkafka/rdkafka.h", library = "rdkafka" },
}
build = {
  type = "builtin",
  -- The files below are kept by `make rockspec`; `make test` checks them against the tree.
  modules = {
    ["sediment.kafka.core"] = {
      sources = {
        "csrc/base/buf.c",
        "csrc/base/bytes.c",
        "csrc/base/clock.c",
        "csrc/base/crc32c.c",
        "csrc/base/err.c",
        "csrc/base/mem.c",
        "csrc/base/murmur2.c",
        "csrc/format/record.c",
        "csrc/kafka/admin.c",
        "csrc/kafka/append.c",
        "csrc/kafka/client.c",
        "csrc/kafka/fail.c",
        "csrc/kafka/groups.c",
        "csrc/kafka/lookup.c",
        "csrc/kafka/member.c",
        "csrc/kafka/pipeline.c",
        "csrc/kafka/reader.c",
        "csrc/kafka/record.c",
        "csrc/lua/args.c",
        "csrc/lua/err.c",
        "csrc/lua/gather.c",
        "csrc/lua/library.c",
        "csrc/lua/object.c",
        "csrc/lua/range.c",
        "csrc/lua/slices.c",
        "csrc/lua_kafka/admin.c",
        "csrc/lua_kafka/append.c",
        "csrc/lua_kafka/groups.c",
        "csrc/lua_kafka/module.c",
        "csrc/lua_kafka/pipeline.c",
        "csrc/lua_kafka/records.c",
        "csrc/lua_kafka/source.c",
        "csrc/lua_kafka/store.c",
        "csrc/lua_kafka/topic.c",
        "csrc/lua_kafka/waits.c",
        "csrc/os/host.c",
      },
      incdirs = { "csrc", "$(RDKAFKA_INCDIR)" },
      libdirs = { "$(RDKAFKA_LIBDIR)" },
      defines = { "_GNU_SOURCE" },
      libraries = { "rdkafka", "pthread", "dl" },
    },
    ["sediment.kafka.append_async"] = "lua/sediment/kafka/append_async.lua",
    ["sediment.kafka.configs"] = "lua/sediment/kafka/configs.lua",
    ["sediment.kafka.consumer"] = "lua/sediment/kafka/consumer.lua",
    ["sediment.kafka.feed"] = "lua/sediment/kafka/feed.lua",
    ["sediment.kafka.groups"] = "lua/sediment/kafka/groups.lua",
    ["sediment.kafka"] = "lua/sediment/kafka/init.lua",
    ["sediment.kafka.objects"] = "lua/sediment/kafka/objects.lua",
    ["sediment.kafka.options"] = "lua/sediment/kafka/options.lua",
    ["sediment.kafka.table"] = "lua/sediment/kafka/table.lua",
    ["sediment.kafka.topics"] = "lua/sediment/kafka/topics.lua",
  },
}

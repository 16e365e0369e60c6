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
    ["sediment.core"] = {
      sources = {
        "csrc/base/buf.c",
        "csrc/base/bytes.c",
        "csrc/base/clock.c",
        "csrc/base/crc32c.c",
        "csrc/base/err.c",
        "csrc/base/mem.c",
        "csrc/base/murmur2.c",
        "csrc/cleaner/clean.c",
        "csrc/cleaner/cleanable.c",
        "csrc/cleaner/latest.c",
        "csrc/cleaner/maintenance.c",
        "csrc/cleaner/offset_map.c",
        "csrc/cleaner/output.c",
        "csrc/cleaner/retention.c",
        "csrc/cleaner/rewrite.c",
        "csrc/cleaner/tombstone.c",
        "csrc/format/batch.c",
        "csrc/format/batch_records.c",
        "csrc/format/batch_writer.c",
        "csrc/format/checkpoint.c",
        "csrc/format/codec.c",
        "csrc/format/codec_gzip.c",
        "csrc/format/codec_lz4.c",
        "csrc/format/codec_snappy.c",
        "csrc/format/codec_zstd.c",
        "csrc/format/index.c",
        "csrc/format/metadata.c",
        "csrc/format/record.c",
        "csrc/format/state_file.c",
        "csrc/log/append.c",
        "csrc/log/bare.c",
        "csrc/log/control.c",
        "csrc/log/flush.c",
        "csrc/log/index_builder.c",
        "csrc/log/log.c",
        "csrc/log/lookup.c",
        "csrc/log/manage.c",
        "csrc/log/offsets.c",
        "csrc/log/reader.c",
        "csrc/log/recover.c",
        "csrc/log/recover_files.c",
        "csrc/log/reindex.c",
        "csrc/log/reserve.c",
        "csrc/log/retired.c",
        "csrc/log/roll.c",
        "csrc/log/scanner.c",
        "csrc/log/seek.c",
        "csrc/log/segment.c",
        "csrc/log/segment_stats.c",
        "csrc/log/stage.c",
        "csrc/log/start.c",
        "csrc/log/state.c",
        "csrc/log/swap.c",
        "csrc/log/transactions.c",
        "csrc/lua/append.c",
        "csrc/lua/args.c",
        "csrc/lua/err.c",
        "csrc/lua/module.c",
        "csrc/lua/object.c",
        "csrc/lua/partition.c",
        "csrc/lua/reader.c",
        "csrc/lua/store.c",
        "csrc/lua/topic.c",
        "csrc/os/fs.c",
        "csrc/os/fs_posix.c",
        "csrc/os/host.c",
        "csrc/os/thread.c",
        "csrc/store/background.c",
        "csrc/store/config.c",
        "csrc/store/config_parse.c",
        "csrc/store/folders.c",
        "csrc/store/info.c",
        "csrc/store/logs.c",
        "csrc/store/options.c",
        "csrc/store/store.c",
        "csrc/store/store_topics.c",
        "csrc/store/topic.c",
        "csrc/store/topics_file.c",
        "csrc/store/upkeep.c",
      },
      incdirs = { "csrc", "$(XXHASH_INCDIR)" },
      defines = { "_GNU_SOURCE" },
      libraries = { "pthread", "dl" },
    },
    ["sediment"] = "lua/sediment/init.lua",
    ["sediment.table"] = "lua/sediment/table.lua",
    ["sediment.types"] = "lua/sediment/types.lua",
  },
}
test_dependencies = {
  "busted",
}
test = {
  type = "busted",
}

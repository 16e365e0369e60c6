#!/bin/sh
# The modules offer their entry point to the process and nothing else: any other name could meet a namesake in the host program.
cd "$(dirname "$0")/.." || exit 1
status=0
for module in build/5.4/sediment/core.so build/luajit/sediment/core.so build/*/sediment/kafka/core.so; do
    case $module in
    *'*'*) continue ;;                      # there is no librdkafka here
    */kafka/*) entry=luaopen_sediment_kafka_core ;;
    *) entry=luaopen_sediment_core ;;
    esac
    names=$(nm -D --defined-only "$module" | awk '{ print $3 }')
    [ "$names" = $entry ] || { echo "$module exports, beside or instead of $entry:"; echo "$names"; status=1; }
done
exit $status

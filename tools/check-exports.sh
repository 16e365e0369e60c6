#!/bin/sh
# The modules offer their entry point to the process and nothing else: any other name could meet a namesake in the host program.
cd "$(dirname "$0")/.." || exit 1
status=0
for module in build/5.4/sediment/core.so build/luajit/sediment/core.so; do
    names=$(nm -D --defined-only "$module" | awk '{ print $3 }')
    [ "$names" = luaopen_sediment_core ] || { echo "$module exports, beside or instead of luaopen_sediment_core:"; echo "$names"; status=1; }
done
exit $status

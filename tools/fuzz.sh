#!/bin/sh
# Runs the fuzzers that `make fuzz` has built, one after the other, each for its share of the seconds; goes on after a finding and tells of it at the end.
#     tools/fuzz.sh SECONDS TARGET...
# What they learn is kept in build/fuzz/corpus/TARGET, findings are build/fuzz/TARGET-crash-... and the like, the output is build/fuzz/TARGET.log.
seconds=$1; shift
share=$((seconds / $#))
[ "$share" -gt 0 ] || share=1
# What was freed is kept a while to catch its use; by default so much that it would pass the limit of memory by itself.
export ASAN_OPTIONS="${ASAN_OPTIONS:-quarantine_size_mb=32:detect_leaks=1}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
status=0
for target; do
    mkdir -p "build/fuzz/corpus/$target"
    if "build/fuzz/fuzz-$target" -max_total_time="$share" -timeout=5 -rss_limit_mb=600 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target" "spec/fuzz/corpus/$target" > "build/fuzz/$target.log" 2>&1
    then found='nothing found'
    else found="FOUND SOMETHING, see build/fuzz/$target.log"; status=1; fi
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "build/fuzz/$target.log")
    echo "$target: ${rate:-?} executions per second, $found"
done
exit $status

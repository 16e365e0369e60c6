#!/bin/sh
# Runs the fuzzers that `make fuzz` has built, one after the other, each for its share of the seconds; goes on after a finding and tells of it at the end.
#     SEED=N tools/fuzz.sh SECONDS TARGET...               without SEED another one each time
# What they learn is kept in build/fuzz/corpus/TARGET, findings are build/fuzz/TARGET-crash-... and the like, the output is build/fuzz/TARGET.log.
. tools/children.sh
seconds=$1; shift
seed=${SEED:-$(($(date +%s) % 1000000000 + 1))}
share=$((seconds / $#))
[ "$share" -gt 0 ] || share=1
# What was freed is kept a while to catch its use; by default so much that it would pass the limit of memory by itself.
export ASAN_OPTIONS="${ASAN_OPTIONS:-quarantine_size_mb=32:detect_leaks=1}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# Its status: 0: its time is over; 72: it was interrupted; libFuzzer's 70 (too slow), 71 (too much memory) and 77, and a sanitizer's own: an input was found.
fuzz() {
    mkdir -p "build/fuzz/corpus/$target"
    attend "build/fuzz/fuzz-$target" -seed="$seed" -max_total_time="$share" -timeout=5 -rss_limit_mb=600 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target" "spec/fuzz/corpus/$target" > "build/fuzz/$target.log" 2>&1
}

figure() { sed -n "s/^stat::$1: *//p" "build/fuzz/$target.log"; }

so_far() { sed -n 's/^#\([0-9]*\)[^0-9].*/\1/p' "build/fuzz/$target.log" | tail -n 1; }

tell() {
    if [ -t 1 ]; then printf '\r\033[K%s: %s executions' "$target" "$(so_far)"; else echo "$target: $(so_far) executions"; fi
}

echo "fuzz: $# targets, one after the other, $share s each, seed $seed"
status=0 total=0
for target; do
    fuzz
    case $? in
    0) found='nothing found' ;;
    72) echo "$target: interrupted"; exit 130 ;;
    126|127) found="it does not start, see build/fuzz/$target.log"; status=1 ;;
    130|137|143) found='it was killed'; status=1 ;;
    *) found="FOUND SOMETHING, see build/fuzz/$target.log"; status=1 ;;
    esac
    [ ! -t 2 ] || printf '\r\033[K' >&2
    executed=$(figure number_of_executed_units)
    total=$((total + ${executed:-0}))
    echo "$target: ${executed:-0} executions, $(figure average_exec_per_sec) per second, $found"
done
echo "$total executions"
exit $status

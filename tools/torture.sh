#!/bin/sh
# Runs the torture program on each processor, with seeds of its own, and adds up what they say.
#     tools/torture.sh PROGRAM SECONDS
program=$1 seconds=$2
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP
jobs=$(nproc 2> /dev/null || echo 2)
for i in $(seq "$jobs"); do
    "$program" --seconds "$seconds" --first "${i}000001" > "$logs/$i" 2>&1 || echo "exit status $?" >> "$logs/$i" &
done
wait
grep -hv -e ' crash states, ' -e ' passed, ' "$logs"/*
cat "$logs"/* | awk '
/ crash states, / { calls += $1; states += $3; inside += $6 }
/ passed, / { passed += $1; failed += $3; ended++ }
END {
  printf "%d calls, %d crash states, %d of them inside recovery\n", calls, states, inside
  if (ended < '"$jobs"') failed += '"$jobs"' - ended
  printf "%d passed, %d failed\n", passed, failed
  exit !(passed > 0 && failed == 0)
}'

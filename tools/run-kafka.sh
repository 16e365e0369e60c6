#!/bin/sh
# Sediment judged by Kafka: random scripts through both, bugs that they must find, codecs, the hand-over to a broker and back, the dump tool over
# every store that the specs leave behind, and stores on a cluster. Ends with "N passed, N failed".
#     LUA= LUA54=lua5.4 LUAJIT=luajit tools/run-kafka.sh N SEED         LUA: that one only
cd "$(dirname "$0")/.." || exit 1
. tools/children.sh
n=${1:-300} seed=${2:-1} lua54=${LUA54:-lua5.4} luajit=${LUAJIT:-luajit}
luas=${LUA:-$lua54 $luajit}
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || TMPDIR=/dev/shm
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/sediment-kafka.XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
passed=0 failed=0

# A part's own closing line counts; one without, or that fails although its line says that all passed, is one failure.
part() {                                  # part NAME COMMAND...
    name=$1; shift
    echo "== $name"
    attend "$@" > "$TMPDIR/out" 2>&1 < /dev/null
    status=$?
    set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$TMPDIR/out" | tail -n 1)
    grep -vE '^[0-9]+ passed, [0-9]+ failed$' "$TMPDIR/out"
    if [ $# -ne 2 ] || { [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; }; then
        echo "$name: exit status $status"
        failed=$((failed + 1))
        return
    fi
    passed=$((passed + $1)) failed=$((failed + $2))
}

# Fetches the jars and compiles once, so that nothing below waits for it.
spec/kafka/referee classpath > "$TMPDIR/classpath" || exit 1

part "differential test" python3 spec/kafka/differ.py --codecs --n "$n" --seed "$seed" --lua "$(echo "$luas" | tr ' ' ,)"
part "model" python3 spec/kafka/differ.py --model --n $(((n + 2) / 3)) --seed "$seed" --lua "${luas%% *}"
part "bugs planted" python3 spec/kafka/selftest.py --lua "${luas%% *}"
for lua in $luas; do
    part "codecs, $lua" env LUA="$lua" sh -c 'eval "$(sh tools/env.sh "$LUA")"; exec spec/kafka/codecs "$LUA"'
    part "groups, $lua" env LUA="$lua" sh -c 'eval "$(sh tools/env.sh "$LUA")"; exec spec/kafka/groups "$LUA"'
    part "survivors, $lua" env LUA="$lua" SEED="$seed" sh -c 'eval "$(sh tools/env.sh "$LUA")"; exec spec/kafka/survivors --lua "$LUA" --n 30 --seed "$SEED"'
    part "brokers, $lua" spec/kafka/brokers "$lua"
    part "contract, $lua" spec/kafka/contract "$lua"
    part "cluster, $lua" spec/kafka/cluster "$lua"
    part "copying, $lua" spec/kafka/copying "$lua"
    part "replicated, $lua" spec/kafka/replicated "$lua"
done
part "stores of the specs" spec/kafka/leftovers $luas

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

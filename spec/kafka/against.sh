# Sourced by the tools beside it that run a spec against real brokers: starts them, runs the spec on each Lua, ends them.
#     against NODES SPEC [LUA...]        the spec finds them by SEDIMENT_BROKER, SEDIMENT_BROKER_DIR, SEDIMENT_CLUSTER (all nodes), SEDIMENT_CLASSPATH
# Ends with "N passed, N failed". The tree's module is used, built where librdkafka-dev is.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
port=$((20000 + $$ % 300 * 30))                 # and, of each node, the two behind it
work=$(mktemp -d "${TMPDIR:-/tmp}/against.XXXXXX") || exit 1
export SEDIMENT_BROKER="$here/broker" SEDIMENT_BROKER_DIR="$work/broker"

# A test that was cut short may have left a broker standing still.
end() {
    for file in "$SEDIMENT_BROKER_DIR"/*/pid; do kill -CONT "$(cat "$file" 2> /dev/null)" 2> /dev/null; done
    "$SEDIMENT_BROKER" stop "$SEDIMENT_BROKER_DIR" > /dev/null 2>&1
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

against() {
    nodes=$1 spec=$2 passed=0 failed=0
    shift 2
    "$SEDIMENT_BROKER" start "$SEDIMENT_BROKER_DIR" "$port" "$nodes" || exit 1
    SEDIMENT_CLUSTER=$(cat "$SEDIMENT_BROKER_DIR/servers") SEDIMENT_CLASSPATH=$("$here/referee" classpath) || exit 1
    export SEDIMENT_CLUSTER SEDIMENT_CLASSPATH
    for lua in ${*:-lua5.4 luajit}; do
        eval "$(sh "$root/tools/env.sh" "$lua")"
        (cd "$root" && SEDIMENT_LUA=$lua LUA_PATH="$root/spec/?.lua;$LUA_PATH" \
            timeout 600 busted --lua="$lua" --output=plainTerminal "$spec") > "$work/out" 2>&1
        status=$?
        set -- $(sed -nE 's,^([0-9]+) success(es)? / ([0-9]+) failures? / ([0-9]+) errors? .*$,\1 \3 \4,p' "$work/out" | tail -n 1)
        if [ $# -ne 3 ]; then set -- 0 0 1; fi
        if [ "$status" -ne 0 ] && [ $(($2 + $3)) -eq 0 ]; then set -- "$1" 0 1; fi
        [ $(($2 + $3)) -eq 0 ] || { echo "$lua:"; cat "$work/out"; }
        passed=$((passed + $1)) failed=$((failed + $2 + $3))
    done
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

#!/bin/sh
# Runs every check there is, whatever fails on the way, and ends with a table and the line "N passed, N failed".
#     tools/run-tests.sh [PATTERN]
# A part is named GROUP/NAME: tidy/layers, c/crc32c_test, asan/..., tsan/..., lua5.4/store_spec, luajit/...; only parts whose name contains
# PATTERN (a shell pattern) run, of =GROUP/NAME that one. What each printed is in build/test-logs/GROUP/NAME.log.
#
# Every program's own closing line is what counts: "N passed, N failed" of a C test, busted's summary of a spec. A program without one, or one
# that fails although its line says that all passed, is one failure: a crash must not look like a test that was not there.
cd "$(dirname "$0")/.." || exit 1
. tools/children.sh
root=$(pwd)
only=${1:-}
logs=build/test-logs
lua54=${LUA54:-lua5.4}
luajit=${LUAJIT:-luajit}
limit=${TEST_SECONDS_MAX:-900}            # a program that hangs is ended
jobs=$(nproc 2>/dev/null || echo 2)
unset MAKEFLAGS MFLAGS MAKELEVEL LUA_INIT LUA_INIT_5_4

[ -n "$only" ] || rm -rf "$logs"
mkdir -p "$logs"
# In memory where there is room: nine tenths of the specs' time would be waiting for the disk.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 1000000 ]; then TMPDIR=/dev/shm; fi
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/sediment-test.XXXXXX") || exit 1
export TMPDIR
chmod 755 "$TMPDIR"
results=$TMPDIR/results                   # lines: group passed failed skipped seconds
: > "$results"
trap 'rm -rf "$TMPDIR"' EXIT

wanted() {
    case =$1 in *$only*) ;; *) return 1 ;; esac
    case $only in =*) [ "=$1" = "$only" ] ;; esac
}

tail_of() { sed 's/^/    | /' "$1" | tail -n "${2:-25}"; }

record() {                                # record PART PASSED FAILED SKIPPED SECONDS
    echo "${1%%/*} $2 $3 $4 $5" >> "$results"
    if [ "$3" -gt 0 ]; then
        echo "FAILED $1: $2 passed, $3 failed ($logs/$1.log)"
        tail_of "$logs/$1.log"
    elif [ -n "$only" ]; then
        echo "ok     $1: $2 passed"
    fi
}

# count LOG: sets passed, failed, skipped from the last closing line in it; returns 1 when there is none.
count() {
    set -- $(sed -nE -e 's/\x1b\[[0-9;]*m//g' -e 's/^([A-Za-z_]+: )?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?\.?$/\2 \3 0\5/p' \
        -e 's,^([0-9]+) success(es)? / ([0-9]+) failures? / ([0-9]+) errors? / ([0-9]+) pending.*$,\1 \3 \5 \4,p' "$1" | tail -n 1)
    [ $# -ge 3 ] || return 1
    passed=$1 failed=$(($2 + ${4:-0})) skipped=$((${3#0} + 0))
}

launch() {                                # launch LOG COMMAND...
    out=$1; shift
    if command -v timeout > /dev/null; then set -- timeout -k 10 "$limit" "$@"; fi
    attend "$@" > "$out" 2>&1 < /dev/null
}

run() {                                   # run PART COMMAND...: a program with a closing line
    part=$1; shift
    mkdir -p "$logs/${part%/*}"
    began=$(date +%s)
    launch "$logs/$part.log" "$@"
    status=$?
    seconds=$(($(date +%s) - began))
    if ! count "$logs/$part.log"; then
        echo "no closing line; exit status $status" >> "$logs/$part.log"
        passed=0 failed=1 skipped=0
    elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        echo "exit status $status although all passed" >> "$logs/$part.log"
        failed=1
    fi
    record "$part" "$passed" "$failed" "$skipped" "$seconds"
}

check() {                                 # check PART COMMAND...: a command whose exit status says it all
    wanted "$1" || return 0
    part=$1; shift
    mkdir -p "$logs/${part%/*}"
    began=$(date +%s)
    if launch "$logs/$part.log" "$@"; then set -- 1 0; else set -- 0 1; fi
    record "$part" "$1" "$2" 0 $(($(date +%s) - began))
}

fail() {                                  # fail PART TEXT
    mkdir -p "$logs/${1%/*}"
    echo "$2" >> "$logs/$1.log"
    record "$1" 0 1 0 0
}

# ---- the parts ----

# Only a failure counts here: that it builds is no test.
must() {                                  # must PART COMMAND...
    part=$1; shift
    mkdir -p "$logs/${part%/*}"
    launch "$logs/$part.log" "$@" || record "$part" 0 1 0 0
}

tidy() {
    check tidy/layers "$lua54" tools/check-layers.lua
    check tidy/size "$lua54" tools/check-size.lua
    check tidy/words sh tools/check-words.sh
    [ ! -e tools/check-rockspec.lua ] || check tidy/rockspec "$lua54" tools/check-rockspec.lua
    [ ! -e build/5.4/sediment/core.so ] || check tidy/exports sh tools/check-exports.sh
    check tidy/sabotage sh tools/run-sabotage.sh --check
    [ ! -e .luacheckrc ] || check tidy/luacheck env -u LUA_PATH -u LUA_CPATH luacheck --quiet --no-color . bin/sediment
}

# Address space randomization beyond what ThreadSanitizer was built for stops it before main; setarch turns it off where that is allowed.
steady=
if setarch "$(uname -m)" -R true 2> /dev/null; then steady="setarch $(uname -m) -R"; fi

c_tests() {                               # c_tests GROUP VARIANT
    some=
    for program in $(make -s --no-print-directory list-c-tests V="$2"); do
        if wanted "$1/${program##*/}"; then some="$some $program"; fi
    done
    [ -n "$some" ] || return 0
    built=1
    mkdir -p "$logs/build"
    launch "$logs/build/$1.log" make -s -k -j"$jobs" $some V="$2" || { built=0; tail_of "$logs/build/$1.log"; }
    for program in $some; do
        if [ $built = 0 ] && ! make -q "$program" V="$2" > /dev/null 2>&1; then
            fail "$1/${program##*/}" "does not build"
        elif [ "$2" = tsan ]; then
            run "$1/${program##*/}" $steady "$program"
        else
            run "$1/${program##*/}" "$program"
        fi
    done
}

program() {                               # program PART VARIANT NAME ARGUMENT...: one that is built for it
    wanted "$1" || return 0
    part=$1 variant=$2 name=$3
    shift 3
    mkdir -p "$logs/build"
    if launch "$logs/build/${name##*/}.log" make -s "build/${variant:+$variant/}$name" V="$variant"; then run "$part" "build/${variant:+$variant/}$name" "$@"
    else fail "$part" "does not build"; tail_of "$logs/build/${name##*/}.log"; fi
}

interrupted() {                           # interrupted PART NAME ARGUMENT...: a program that is to end when it is told to
    wanted "$1" || return 0
    must "build/${2##*/}" make -s "build/$2"
    what=$1 name=$2
    shift 2
    check "$what" sh tools/check-interrupt.sh "build/$name" "$@"
}

busted_with() {                           # how to run busted under the interpreter $1: Debian's is a Lua script, a rock's a shell script
    path=$(command -v busted) || { echo false; return; }
    case $(head -n 1 "$path") in *lua*) echo "$1 $path" ;; *) echo "$path --lua=$1" ;; esac
}

specs() {                                 # specs GROUP INTERPRETER BUILD
    busted=$(busted_with "$2")
    for spec in spec/*_spec.lua; do
        name=${spec##*/}; name=${name%.lua}
        [ -e "$spec" ] && wanted "$1/$name" || continue
        run "$1/$name" env LUA_PATH="$root/lua/?.lua;$root/lua/?/init.lua;$root/spec/?.lua;;" LUA_CPATH="$root/build/$3/?.so;;" \
            SEDIMENT_LUA="$2" $busted --output=plainTerminal "$spec"
    done
}

export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=0:exitcode=66}"
case $only in tidy/*) ;; *)
    [ ! -e tools/install-deps.sh ] || must deps/install sh tools/install-deps.sh ;;
esac
[ ! -s "$logs/deps/install.log" ] || cat "$logs/deps/install.log"
must build/product make -s -k -j"$jobs"
tidy
c_tests c ""
c_tests asan asan
c_tests tsan tsan
# Faults: the same seeds each time, so that a run is like the one before. make torture and make flips do more of it.
program sim/torture "" torture --histories 24
program sim/torture_asan asan torture --histories 3
program sim/flips "" flips --every 20
program sim/flips_unclean "" flips --every 80 --seed 2 --unclean
program sim/flips_readonly "" flips --every 40 --seed 3 --readonly
program sim/flips_readonly_unclean "" flips --every 160 --seed 4 --unclean --readonly
program sim/errors "" errors --every 8 --seeds 12
program sim/errors_asan asan errors --every 40 --seeds 4
program sim/syscalls "" syscalls --every 8 --seeds 4
program sim/syscalls_asan asan syscalls --every 40 --seeds 4
# Memory: each Lua's allocations and the library's under it.
program memory/lua5.4 "" 5.4/memory --every 8
program memory/luajit "" luajit/memory --every 8
# Processes killed at any moment, on real files; make kills goes on.
program processes/kills "" kills --seconds 6 --folder "${TMPDIR%/*}"          # where a failure's store stays
program processes/kills_asan asan kills --seconds 6 --folder "${TMPDIR%/*}"
# Programs that go on for long leave nothing behind when they are interrupted.
interrupted processes/interrupted_torture torture --seconds 600 --jobs 3
interrupted processes/interrupted_kills kills --seconds 600
interrupted processes/interrupted_syscalls syscalls --seeds 600
interrupted processes/interrupted_memory 5.4/memory
# What fuzzing begins with and what it once found, through the sanitizers; make fuzz looks for more.
for target in batch codecs files config control partition store import; do program "fuzz/$target" asan "replay-$target" "spec/fuzz/corpus/$target" "spec/fuzz/findings/$target"; done
specs lua5.4 "$lua54" 5.4
specs luajit "$luajit" luajit

awk '
{ if (!($1 in passed)) order[++n] = $1; passed[$1] += $2; failed[$1] += $3; skipped[$1] += $4; seconds[$1] += $5 }
END {
  printf "\n%-10s %8s %8s %8s %8s\n", "part", "passed", "failed", "skipped", "seconds"
  for (i = 1; i <= n; i++) {
    g = order[i]; p += passed[g]; f += failed[g]
    printf "%-10s %8d %8d %8d %8d\n", g, passed[g], failed[g], skipped[g], seconds[g]
  }
  if (p + f == 0) print "nothing ran"
  printf "%d passed, %d failed\n", p, f
  exit !(f == 0 && p > 0)
}' "$results"

#!/bin/sh
# Plants the bugs of spec/sabotage in a copy of the tree, one at a time. The part of run-tests.sh that a patch names must fail then, as `make test`
# runs it. Prints a line for each bug (name, part, caught or MISSED, how long the part ran, what it said first) and ends with "N passed, N failed".
#     tools/run-sabotage.sh [PATTERN]          only the patches whose name contains PATTERN (a shell pattern)
#     tools/run-sabotage.sh --check            only whether all patches can still be applied, and are in the README
#
# A failure proves something only if the part passes without the bug: that is seen to first. A patch that cannot be applied, with which the product does
# not compile or the part hangs, has failed like one that nobody notices.
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
only=${1:-}
unset MAKEFLAGS MFLAGS MAKELEVEL

name_of() { name=${1##*/}; name=${name%.patch}; }
part_of() { part=$(sed -n 's/^Harness: *//p' "$1"); }

check_patches() {
    bad=0
    for file in spec/sabotage/*.patch; do
        part_of "$file"
        name_of "$file"
        [ -n "$part" ] && grep -q "^| $name " spec/sabotage/README.md && patch -s -f -p1 --dry-run -r - < "$file" > /dev/null 2>&1 && continue
        echo "$file: cannot be applied to csrc/, has no line 'Harness: PART', or is not in the README's table"
        bad=1
    done
    return $bad
}
if [ "$only" = --check ]; then check_patches; exit; fi

[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || TMPDIR=/dev/shm
work=$(mktemp -d "${TMPDIR:-/tmp}/sediment-sabotage.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
. tools/children.sh
mkdir "$work/tree" && tar -cf - --exclude=./.git --exclude=./build . | tar -xf - -C "$work/tree" && cd "$work/tree" || exit 1
rm tools/install-deps.sh                  # what is needed is there by now; a look at each run would only take time
passed=0 failed=0 sound='' unsound=''

# ---- one part of the tests ----

# run_part PART: sets seconds; 0: it passes, 1: it fails, 2: it, or the product, does not compile, 3: there is no such part, 4: it hangs.
run_part() {
    log=build/test-logs/$1.log
    rm -f "$log"
    attend sh tools/run-tests.sh "=$1" > "$work/out" 2>&1
    status=$?
    seconds=$(awk -v group="${1%%/*}" '$1 == group && NF == 5 { s = $5 } END { print s + 0 }' "$work/out")
    [ $status -ne 0 ] || return 0
    if grep -q '^FAILED build/' "$work/out" || grep -q 'does not build' "$log" 2> /dev/null; then return 2; fi
    grep -q "^FAILED $1:" "$work/out" || return 3
    if grep -q '^no closing line; exit status 124' "$log"; then return 4; fi
    return 1
}

# A sanitizer's line, or of a spec the name of the test that failed first; else the first line behind the one that says what is run.
said() {
    awk '/^(torture|flips|errors|syscalls|memory|kills): / { next }
        { sub(/^[ \t]+/, "") }
        name || /Sanitizer: |runtime error: / { first = $0; exit }
        /^(Failure|Error) / { name = 1 }
        !first && /[a-z]/ { first = $0 }
        END { print substr(first, 1, 150) }' "$log"
}

why() {                                   # why STATUS
    case $1 in
    2) echo 'does not compile' ;;
    3) echo 'there is no such part' ;;
    4) echo 'it hangs' ;;
    *) said ;;
    esac
}

# Whether the part passes without a bug; it is asked once.
is_sound() {
    case $sound in *" $1 "*) return 0 ;; esac
    case $unsound in *" $1 "*) return 1 ;; esac
    run_part "$1"
    status=$?
    if [ $status -eq 0 ]; then sound="$sound $1 "; return 0; fi
    unsound="$unsound $1 "
    echo "$1 fails without a bug: $(why $status)"
    return 1
}

# ---- the bugs ----

report() {                                # report VERDICT SECONDS TEXT
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if [ "$1" = caught ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-34s %-24s %-7s %3d s  %s\n' "$name" "$part" "$1" "$2" "$3"
}

plant() {                                 # plant PATCH
    if ! patch -s -f -p1 -r - < "$1" > "$work/patch" 2>&1; then
        report BROKEN 0 "cannot be applied: $(head -n 1 "$work/patch")"
        rm -rf csrc && cp -R "$root/csrc" csrc        # whatever it has done
        return
    fi
    run_part "$part"
    status=$?
    case $status in
    0) report MISSED $seconds 'the part passes' ;;
    1) report caught $seconds "$(said)" ;;
    *) report BROKEN $seconds "$(why $status)" ;;
    esac
    patch -s -f -R -p1 -r - < "$1" || exit 1
}

wanted() {                                # wanted PATCH: sets name
    name_of "$1"
    case $name in *$only*) ;; *) return 1 ;; esac
}

run_all() {
    count=0 number=0
    for file in "$root"/spec/sabotage/*.patch; do if wanted "$file"; then count=$((count + 1)); fi; done
    echo "sabotage: $count bugs planted one after the other, each a minute or so at most; the first of a part waits for that part without it"
    for file in "$root"/spec/sabotage/*.patch; do
        wanted "$file" || continue
        part_of "$file"
        number=$((number + 1))
        [ ! -t 2 ] || printf '\r\033[K%d of %d: %s' $number $count "$name" >&2
        if is_sound "$part"; then plant "$file"; else report BROKEN 0 'its part fails without it'; fi
    done
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

run_all; exit                             # one line: a change of this file meanwhile does not matter

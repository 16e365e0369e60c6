#!/bin/sh
# A program that was told to end leaves nothing running, and nothing in $TMPDIR: waits for its first line, sends SIGTERM, and waits until all that have its
# output open have ended. Prints what is wrong; exit 1.
#     tools/check-interrupt.sh PROGRAM ARGUMENT...
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
mkdir "$here/tmp" && mkfifo "$here/output" || exit 1
TMPDIR=$here/tmp "$@" > "$here/output" 2>&1 & program=$!
exec 3< "$here/output"
read -r first <&3
kill -TERM "$program"
timeout 30 cat <&3 > "$here/rest" || { echo "something still runs"; kill -KILL "$program"; exit 1; }
wait "$program" && { echo "it ended in order: $first"; exit 1; }
left=$(ls -A "$here/tmp")
[ -z "$left" ] || { echo "left behind: $left"; cat "$here/rest"; exit 1; }

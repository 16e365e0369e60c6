#!/bin/sh
# Finds marks of unfinished work and paths of somebody's home in the project's text. Prints each line found; exit 1 if any.
cd "$(dirname "$0")/.." || exit 1
found=$(find . \( -path ./.git -o -path ./build -o -name data \) -prune -o -type f \( -name '*.[ch]' -o -name '*.lua' -o -name '*.sh' -o -name '*.md' \
          -o -name '*.py' -o -name '*.rockspec' -o -name '*.conf' -o -name Makefile -o -path './.ci/*' \) -print |
        xargs grep -nE '(^|[^A-Za-z0-9_])(TOD[O]|FIXM[E]|XX[X]|HAC[K])([^A-Za-z0-9_]|$)|(^|[^A-Za-z0-9_.])/(home/[a-z]+|root)/' /dev/null)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }

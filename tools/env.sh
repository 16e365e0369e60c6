#!/bin/sh
# Prints shell lines that let a Lua find the tree's module from anywhere: eval "$(make -s env)".
#     tools/env.sh [LUA]
# What is in the variables already stays, after ours, and so do the interpreter's own paths (;;).
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
lua=${1:-lua5.4}
version=$("$lua" -e 'print(jit and "luajit" or (_VERSION:gsub("Lua ", "")))') || { echo "env: cannot run $lua; make deps installs it" >&2; exit 1; }
case $version in
5.4|luajit) ;;
*) echo "env: $lua is Lua $version; the module is built for Lua 5.4 and LuaJIT" >&2; exit 1 ;;
esac

quote() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# The Lua variable that counts: LUA_PATH_5_4 hides LUA_PATH from Lua 5.4.
put() {                                   # put NAME OURS
    name=$1
    if [ "$version" = 5.4 ] && eval "[ -n \"\${${name}_5_4+set}\" ]"; then name=${name}_5_4; fi
    eval "old=\${$name-}"
    case ";$old;" in
    *";$2;"*) new=$old ;;
    *) new="$2;$old" ;;
    esac
    case $new in *';;'*) ;; *';') new="$new;" ;; *) new="$new;;" ;; esac
    printf 'export %s=%s\n' "$name" "$(quote "$new")"
}

put LUA_PATH "$root/lua/?.lua;$root/lua/?/init.lua"
put LUA_CPATH "$root/build/$version/?.so"
path=$PATH
if [ -d "$root/bin" ]; then
    case ":$path:" in *":$root/bin:"*) ;; *) path=$root/bin:$path ;; esac
fi
printf 'export PATH=%s\n' "$(quote "$path")"

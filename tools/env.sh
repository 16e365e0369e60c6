#!/bin/sh
# Prints shell lines that let a Lua find the tree's module from anywhere: eval "$(make -s env)".
#     tools/env.sh [LUA]
# What is in the variables already stays, after ours, and so do the interpreter's own paths (;;).
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
lua=${1:-lua5.4}
version=$("$lua" -e 'print(jit and "luajit" or (_VERSION:gsub("Lua ", "")))') || { echo "env: cannot run $lua; LUA= names the interpreter, and make deps sees to lua5.4 and luajit" >&2; exit 1; }
case $version in
5.4|luajit) ;;
*) echo "env: $lua is Lua $version; the module is built for Lua 5.4 and LuaJIT" >&2; exit 1 ;;
esac

quote() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# Ours must come first, also where this was evaluated before for the other Lua: its module must not be met on the way.
without() {                               # without LIST SEPARATOR ITEM...
    list=$2$1$2; separator=$2; shift 2
    for item in "$@"; do
        while :; do
            case $list in
            *"$separator$item$separator"*) list=${list%%"$separator$item$separator"*}$separator${list#*"$separator$item$separator"} ;;
            *) break ;;
            esac
        done
    done
    list=${list#"$separator"}
    printf '%s' "${list%"$separator"}"
}

put() {                                   # put NAME OURS ITEM...: the items are what ours may have been
    name=$1; ours=$2; shift 2
    if [ "$version" = 5.4 ] && eval "[ -n \"\${${name}_5_4+set}\" ]"; then name=${name}_5_4; fi    # it would hide the plain one
    eval "old=\${$name-}"
    old=$(without "$old" ';' "$@")
    new=$ours\;${old#;}
    case $new in *';;'*) ;; *';') new="$new;" ;; *) new="$new;;" ;; esac
    printf 'export %s=%s\n' "$name" "$(quote "$new")"
}

put LUA_PATH "$root/lua/?.lua;$root/lua/?/init.lua" "$root/lua/?.lua" "$root/lua/?/init.lua"
put LUA_CPATH "$root/build/$version/?.so" "$root/build/5.4/?.so" "$root/build/luajit/?.so"
path=$PATH
if [ -d "$root/bin" ]; then path=$root/bin:$(without "$PATH" : "$root/bin"); fi
printf 'export PATH=%s\n' "$(quote "$path")"

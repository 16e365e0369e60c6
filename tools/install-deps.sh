#!/bin/sh
# Sees to what building (`install-deps.sh build`), building and testing (no argument), or make sabotage, bench, fuzz or kafka (its name as
# argument) needs. On a Debian system, as root, it installs what is missing; elsewhere it lists that. Silent when nothing is missing.
# Needs a shell only.
#
# The nginx Lua module and LuaJIT must come as a pair: on Debian 12 the module brings OpenResty's LuaJIT (luajit2), which conflicts with the
# package luajit; later releases have one luajit for both. So the packages are chosen by what the system offers, not by its version.
scope=${1:-test}
need=''                                   # packages that building or testing cannot do without
wish=''                                   # packages without which a codec is not built in, or some specs are skipped
list=''

have() { command -v "$1" > /dev/null 2>&1; }

header() {                                # header NAME [PKG-CONFIG NAME...]: can the compiler find it?
    name=$1; shift
    have cc || return 1
    flags=
    for p in "$@"; do flags=$(pkg-config --cflags "$p" 2> /dev/null) && break; done
    echo "#include <$name>" | cc -E $flags - > /dev/null 2>&1
}

has_argparse() { "$1" -e 'require "argparse"' > /dev/null 2>&1; }

nginx_lua() { sh "$(dirname "$0")/find-nginx.sh" > /dev/null; }

offered() {                               # is the package to be had?
    have apt-cache && apt-cache policy "$1" 2> /dev/null | grep -q 'Candidate: [^(]'
}

missing() {                               # missing need|wish "PACKAGES" "WHAT FOR"
    if [ "$1" = need ]; then need="$need $2"; else wish="$wish $2"; fi
    list="$list
  $(printf '%-44s' "$2") $3"
}

# LuaJIT's packages are named once it is known what is offered, that is, after apt-get update.
look() {
    need='' wish='' list=''
    luajit='luajit libluajit-5.1-dev'
    if offered luajit2; then luajit='luajit2 libluajit2-5.1-dev'; fi
    have cc || missing need 'gcc libc6-dev' 'a C compiler with the address, undefined-behaviour and thread sanitizers'
    have make || missing need make 'the build'
    have ar || missing need binutils 'the build'
    have pkg-config || missing need pkg-config 'finds the headers of both Luas'
    have "${LUA54:-lua5.4}" || missing need lua5.4 'Lua 5.4'
    header lua.h lua5.4 lua-5.4 lua54 || missing need liblua5.4-dev "Lua 5.4's headers"
    { have "${LUAJIT:-luajit}" && header luajit.h luajit; } || missing need "$luajit" 'LuaJIT and its headers'
    header zlib.h || missing wish zlib1g-dev 'zlib, the codec gzip'
    header snappy-c.h || missing wish libsnappy-dev 'the codec snappy'
    header lz4frame.h || missing wish liblz4-dev 'the codec lz4'
    header zstd.h || missing wish libzstd-dev 'the codec zstd'
    header xxhash.h || missing need libxxhash-dev 'xxhash.h, the hash of keys and segments'
    have gzip || missing need gzip "unpacks the example's data"
    if [ "$scope" = kafka ]; then look_for_kafka; fi
    if [ "$scope" = fuzz ]; then look_for_clang; fi
    if [ "$scope" = bench ]; then look_for_load; fi
    [ "$scope" = test ] || [ "$scope" = sabotage ] || return 0
    have patch || missing need patch 'plants the bugs of make sabotage'
    have busted || missing need lua-busted 'runs the specs'
    "${LUA54:-lua5.4}" -e 'require "cjson"' > /dev/null 2>&1 || missing need lua-cjson 'reads the change events of an example'
    have luacheck || missing need lua-check 'checks the Lua code'
    { has_argparse "${LUA54:-lua5.4}" && has_argparse "${LUAJIT:-luajit}"; } || missing need lua-argparse 'the command sediment reads its arguments with it'
    have luarocks || missing need luarocks 'checks the rockspec'
    look_for_nginx
}

look_for_nginx() {
    nginx_lua || missing wish 'nginx-light libnginx-mod-http-lua' 'nginx with the Lua module (or OpenResty), for the nginx specs'
    have curl || missing wish curl 'asks nginx, for the same'
}

look_for_load() {
    look_for_nginx
    have wrk || missing wish wrk 'the load of nginx in make bench'
}

# Kafka's jars themselves come from Maven's repository (spec/kafka/referee).
look_for_kafka() {
    { have javac && have java; } || missing need default-jdk-headless "a JDK 17 or later, for Kafka's own code"
    have mvn || missing need maven "fetches Kafka's jars"
    have kcat || missing need kcat 'talks to a broker'
    header librdkafka/rdkafka.h rdkafka || missing need librdkafka-dev 'stores on a Kafka cluster'
    have python3 || missing need python3 'runs the comparison'
    have busted || missing need lua-busted 'runs the specs whose stores Kafka is shown'
}

# The runtime has packages by clang's version; clang itself recommends the one that fits.
look_for_clang() {
    have clang || missing need clang 'the compiler that libFuzzer belongs to'
    version=$(clang -dumpversion 2> /dev/null || apt-cache depends clang 2> /dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c -o /dev/null - > /dev/null 2>&1; then return; fi
    missing need "libclang-rt-${version%%.*}-dev" 'libFuzzer and the sanitizers of clang'
}

# policy-rc.d keeps nginx from being started by its installation.
install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update > "$log" 2>&1 || echo "apt-get update failed; going on with the package lists that are here" >&2
    look
    case "$wish $need" in
    *luajit2*) ;;
    *nginx*) if offered luajit2; then need="$need luajit2 libluajit2-5.1-dev"; fi ;;   # takes the place of the other LuaJIT
    esac
    echo "installing:$need$wish"
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        trap 'rm -f /usr/sbin/policy-rc.d "$log"' EXIT
        printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
    fi
    apt-get -q -y install --no-install-recommends $need $wish >> "$log" 2>&1 || { tail -n 20 "$log" >&2; echo "apt-get install failed" >&2; }
}

look
[ -n "$need$wish" ] || exit 0
if have apt-get && [ "$(id -u)" = 0 ]; then
    log=$(mktemp) || exit 1
    trap 'rm -f "$log"' EXIT
    install
    look
    [ -n "$need$wish" ] || exit 0
fi
echo "Missing (Debian's package names, and what they are for):$list"
echo "On Debian: apt-get install --no-install-recommends$need$wish"
[ -z "$need" ]

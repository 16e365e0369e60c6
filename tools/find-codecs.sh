#!/bin/sh
# Finds the compression libraries that this machine can build with: one line with -D flags (`flags`) or with -l flags (`libs`).
#     tools/find-codecs.sh flags|libs DIR [CODEC...]      CODEC: gzip snappy lz4 zstd
# What was found is kept in DIR, as long as the compiler and its flags (CC, CPPFLAGS, CFLAGS, LDFLAGS) are the same; what was not is looked for
# again the next time. DIR/flags changes when the answer does.
what=$1 dir=$2
shift 2
mkdir -p "$dir" || exit 1
with="${CC:-cc} ${CPPFLAGS-} ${CFLAGS-} ${LDFLAGS-}"
[ "$(cat "$dir/with" 2> /dev/null)" = "$with" ] || { rm -f "$dir"/found-*; printf '%s\n' "$with" > "$dir/with"; }

links() {                                 # links HEADER LIBRARY FUNCTION
    printf '#include <stddef.h>\n#include <%s>\nint main(void) { return (void *)%s == NULL; }\n' "$1" "$3" |
        $with -x c -o "$dir/probe" - "-l$2" > /dev/null 2>&1
}

look() {                                  # look CODEC HEADER LIBRARY FUNCTION MACRO
    [ -e "$dir/found-$1" ] || { links "$2" "$3" "$4" && : > "$dir/found-$1"; } || return
    flags="$flags -D$5" libs="$libs -l$3"
}

flags='' libs=''
for codec in "$@"; do
    case $codec in
    gzip) look gzip zlib.h z inflate SDM_WITH_ZLIB ;;
    snappy) look snappy snappy-c.h snappy snappy_uncompress SDM_WITH_SNAPPY ;;
    lz4) look lz4 lz4frame.h lz4 LZ4F_decompress SDM_WITH_LZ4 ;;
    zstd) look zstd zstd.h zstd ZSTD_decompressStream SDM_WITH_ZSTD ;;
    *) echo "find-codecs: there is no codec '$codec' (gzip snappy lz4 zstd)" >&2; exit 2 ;;
    esac
done
[ "$(cat "$dir/flags" 2> /dev/null)" = "$flags" ] || printf '%s\n' "$flags" > "$dir/flags"
if [ "$what" = libs ]; then echo "$libs"; else echo "$flags"; fi

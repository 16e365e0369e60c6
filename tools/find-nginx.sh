#!/bin/sh
# Prints the nginx whose Lua module there is, and the lines that its configuration must begin with to have it: none for OpenResty, and where
# the module is built in. Fails without a word when there is none.
for nginx in openresty nginx /usr/sbin/nginx /usr/local/openresty/bin/openresty; do
    nginx=$(command -v "$nginx") && break
done
[ -n "$nginx" ] || exit 1
if "$nginx" -V 2>&1 | grep -Eq 'openresty|add-module=[^ ]*lua[-_]nginx'; then echo "$nginx"; exit 0; fi
for folder in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/local/lib/nginx/modules /usr/share/nginx/modules; do
    [ -e "$folder/ngx_http_lua_module.so" ] || continue
    echo "$nginx"
    for module in ndk_http_module ngx_http_lua_module; do echo "load_module $folder/$module.so;"; done
    exit 0
done
exit 1

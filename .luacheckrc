std = "max"
max_line_length = 140
unused_args = false
exclude_files = { "build/", "lua_modules/" }

files["spec/"] = { std = "max+busted" }
files["spec/kafka/"] = { std = "max" }
files["spec/kafka/*_spec.lua"] = { std = "max+busted" }
files["bin/sediment"] = { globals = { "_" } }      -- to a shell the beginning of its part
files["lua/resty/"] = { std = "ngx_lua" }
files["examples/nginx/"] = { std = "ngx_lua" }
files["spec/nginx/"] = { std = "max+busted+ngx_lua" }
files[".luacheckrc"] = { ignore = { "111", "131" } }

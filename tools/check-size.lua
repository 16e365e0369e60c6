-- Checks that no file of csrc/ and lua/ has more than 600 lines and no function more than 70. Prints each offence; exit 1 if any.
--     lua tools/check-size.lua [root]
local root = arg[1] or "."
local FILE_LINES, FUNCTION_LINES = 600, 70

local offences = 0
local function offence(...)
  offences = offences + 1
  io.write(string.format(...), "\n")
end

local function check_function(file, first, last, what)
  local n = last - first + 1
  if n > FUNCTION_LINES then offence("%s:%d: %d lines, %d at most: %s", file, first, n, FUNCTION_LINES, what) end
end

local function lines_of(text)
  local lines = {}
  for line in (text:find "\n$" and text or text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

-- A function begins with the line that starts its signature in column one, has a "{" at the end of that line or of a later one before
-- any ";", and ends with the next "}" in column one.
local function check_c(file, lines)
  local first, inside
  for number, line in ipairs(lines) do
    if inside then
      if line:find "^}" then
        if first then check_function(file, first, number, lines[first]) end
        first, inside = nil, false
      end
    elseif not line:find "^#" then
      if line:find "^[%a_]" then first = number end
      if line:find "{%s*$" or line:find "{%s*/%*.*$" then
        local head = first and table.concat(lines, " ", first, number) or ""
        inside = true
        if not head:find "%)" or head:find "^typedef" or head:find "=%s*{" then first = nil end
      elseif line:find ";" then
        first = nil
      end
    end
  end
end

-- Comments and strings are blanked, lines are kept; then blocks are matched by their words.
local function blank_lua(text)
  local out, at = {}, 1
  local function keep(to) out[#out + 1] = text:sub(at, to - 1) at = to end
  local function drop(to) out[#out + 1] = (text:sub(at, to):gsub("[^\n]", " ")) at = to + 1 end
  local function long_end(from, level) return select(2, text:find("]" .. level .. "]", from, true)) or #text end
  while true do
    local from = text:find("[%-%[\"']", at)
    if not from then break end
    local level = text:match("^%-%-%[(=*)%[", from) or text:match("^%[(=*)%[", from)
    local quote = text:match("^[\"']", from)
    if level then
      keep(from)
      drop(long_end(from, level))
    elseif text:find("^%-%-", from) then
      keep(from)
      drop((text:find("\n", from, true) or #text + 1) - 1)
    elseif quote then
      keep(from)
      local to = from + 1
      while to <= #text and text:sub(to, to) ~= quote do to = to + (text:sub(to, to) == "\\" and 2 or 1) end
      drop(to)
    else
      keep(from + 1)
    end
  end
  keep(#text + 1)
  return table.concat(out)
end

local OPENS = { ["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }

local function check_lua(file, lines)
  local open = {}
  for number, line in ipairs(lines_of(blank_lua(table.concat(lines, "\n") .. "\n"))) do
    for word in line:gmatch "[%a_][%w_]*" do
      if OPENS[word] then
        open[#open + 1] = { word, number }
      elseif CLOSES[word] then
        local block = table.remove(open)
        if not block then return offence("%s:%d: cannot follow the blocks of this file", file, number) end
        if block[1] == "function" then check_function(file, block[2], number, lines[block[2]]) end
      end
    end
  end
end

local count = 0
for path in io.popen("cd '" .. root .. "' && find csrc lua -name '*.[ch]' -o -name '*.lua' 2>/dev/null | sort"):lines() do
  local f = assert(io.open(root .. "/" .. path))
  local lines = lines_of(f:read "*a")
  f:close()
  count = count + 1
  if #lines > FILE_LINES then offence("%s: %d lines, %d at most", path, #lines, FILE_LINES) end
  if path:find "%.lua$" then check_lua(path, lines) else check_c(path, lines) end
end
os.exit(offences == 0 and count > 0 and 0 or 1)

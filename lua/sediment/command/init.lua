-- The command `sediment`: what its subcommands have in common. Each is a file of this folder with `summary`, `description`,
-- `define(command)` for argparse, and `execute(given)`, which answers an exit status or nil, message, code.
--
-- Exit status: 0 all is well; 1 something failed, or `verify` found damage; 2 the command line is wrong; 128 and the signal's number when a
-- signal ended a run in order. Data go to stdout, all else to stderr.
local COMMANDS = { "run", "apply", "topics", "cat", "groups", "policy", "verify", "maintain", "backup", "copy" }

local DESCRIPTION = [[
An embedded log store with Apache Kafka's semantics and bytes on disk. `sediment COMMAND --help` tells more.]]

local EPILOG = [[
Exit status: 0 done; 1 failed, or verify found damage; 2 wrong usage; 128 + N ended in order by signal N (130: Ctrl-C).]]

local text = require "sediment.command.text"

local function usage_error(parser, message)
  io.stderr:write(("%s\n\nError: %s\n"):format(parser:get_usage(), text.printable(message)))
  os.exit(2)
end

local function define(argparse, modules)
  local parser = argparse("sediment", DESCRIPTION, EPILOG)
  parser.error = usage_error
  parser:help_max_width(100)
  parser:help_description_margin(22)
  parser:command_target "command"
  parser:require_command(true)
  parser:option("--version", "Show the version and exit."):args(0):action(function()
    print("sediment " .. require "sediment"._VERSION)
    os.exit(0)
  end)
  for _, name in ipairs(COMMANDS) do
    local module = require("sediment.command." .. name)
    modules[name] = module
    local description = (module.description or module.summary):gsub("\n", " ")          -- argparse breaks the lines
    module.define(parser:command(name, description):summary(module.summary))
  end
  return parser
end

-- What the library advises is for programs; here there are other ways.
local ADVICE = {
  ["; give a config, even {}, to create it"] = "; `sediment topics` lists those that there are",
  [", and it is not to be created"] = "; give another with --store",
  ["; store:policy puts one there"] = "; `sediment policy NAME FILE` puts one there",
}

local function advised(message)
  for from, to in pairs(ADVICE) do
    local first, last = message:find(from, 1, true)
    if first then return message:sub(1, first - 1) .. to .. message:sub(last + 1) end
  end
  return message
end

local function perform(module, given)
  local status, message, code = module.execute(given)
  local flushed, why = text.flush()
  if status and flushed then return status end
  message = message or why
  text.complain("sediment " .. given.command, advised(message))
  return code == "usage" and 2 or 1
end

--- Runs the command with these arguments: its exit status.
return function(arguments)
  if _VERSION == "Lua 5.1" and not rawget(_G, "jit") then
    text.complain("sediment", "this is Lua 5.1; the command needs Lua 5.4 or LuaJIT")
    return 1
  end
  require "sediment"
  require "sediment.core".let_interrupt()                -- until a run asks for it
  local found, argparse = pcall(require, "argparse")
  if not found then
    text.complain("sediment", "the command needs the Lua library argparse (Debian: lua-argparse, LuaRocks: argparse)")
    return 1
  end
  local modules = {}
  local given = define(argparse, modules):parse(arguments)
  local ok, status = pcall(perform, modules[given.command], given)
  if ok then return status end
  text.complain("sediment " .. given.command, (tostring(status):gsub("^%S*sediment/command/[%w_]+%.lua:%d+: ", "")))
  return 1
end

--- Converts Lua tables of options to the lists "name=value, name=value" of pleiad.h. See docs/parameters.md for the options.
local check = require "multiverso.check"
local kinds = require "multiverso.kinds"

local options = {}

local session_names = {
  "engine", "role", "timeout", "warn_after", "log_level", "stats", "signal_report", "host_timeout", "interface", "shared_memory",
  "split_hosts", "fault",
}
local table_names = {"name", "dtype", "apply", "ordered", "check_finite", "reserve_only", "strict"}
local updater_types = {"default", "sgd", "momentum_sgd", "adagrad", "dcasgd", "dcasgda"}
local rule_names = {"sync", "updater", "updater_type"}

local function has(list, name)
  for _, word in ipairs(list) do
    if word == name then return true end
  end
  return false
end

local function joined(...)
  local all = {}
  for _, list in ipairs{...} do
    for _, word in ipairs(list) do all[#all + 1] = word end
  end
  return all
end

local function text(where, name, value)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
    check.fail("[%s] option %s: expected a string, number or boolean; received %s", where, name, check.describe(value))
  end
  local word = kind == "number" and ("%.17g"):format(value) or tostring(value)
  if word:find(",", 1, true) then check.fail("[%s] option %s: expected a value without a comma; received %q", where, name, word) end
  return word
end

-- Iterates over pairs in the order of their names, so that all ranks produce the same list.
local function sorted(where, given)
  local names = {}
  for name in pairs(given) do
    if type(name) ~= "string" then
      check.fail("[%s] expected options by name; received the key %s", where, check.describe(name))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

-- Copies sync, updater and updater_type from `given` to the list `out`.
local function rule(where, given, out)
  if given.sync ~= nil then
    if type(given.sync) ~= "boolean" then
      check.fail("[%s] option sync: expected true or false; received %s", where, check.describe(given.sync))
    end
    out.clock = given.sync and "sync" or "async"
  end
  if given.updater ~= nil and given.updater_type ~= nil then
    check.fail("[%s] expected either updater (Pleiad's rules) or updater_type (Multiverso's); received both", where)
  end
  if given.updater_type ~= nil then
    if not has(updater_types, given.updater_type) then
      check.unknown("[" .. where .. "]", "updater_type", given.updater_type, updater_types)
    end
    out.updater = "multiverso/" .. given.updater_type
  end
  if type(given.updater) == "table" then
    for _, name in ipairs(sorted(where, given.updater)) do
      local key = name == "rule" and "updater" or "updater." .. name
      out[key] = text(where, "updater." .. name, given.updater[name])
    end
  elseif given.updater ~= nil then
    out.updater = text(where, "updater", given.updater)
  end
end

local function written(out)
  local names, words = {}, {}
  for name in pairs(out) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do words[i] = name .. "=" .. out[name] end
  return table.concat(words, ", ")
end

--- Converts init's argument (nil, sync, or a table) to the session's list and the default options of all tables.
function options.for_session(where, given)
  if given == nil then given = {} end
  if type(given) == "boolean" then given = {sync = given} end
  if type(given) ~= "table" then
    check.fail("[%s] expected sync (true or false) or a table of options; received %s", where, check.describe(given))
  end
  local session, tables = {}, {updater = "multiverso/default"}
  for _, name in ipairs(sorted(where, given)) do
    if has(session_names, name) then
      session[name] = text(where, name, given[name])
    elseif has(table_names, name) and name ~= "name" then
      tables[name] = text(where, name, given[name])
    elseif not has(rule_names, name) then
      check.unknown("[" .. where .. "]", "option", name, joined(rule_names, session_names, table_names))
    end
  end
  rule(where, given, tables)
  return written(session), tables
end

--- Returns the option list of a table, its element type, and whether it is strict. `master` is the rank of worker 0, whose
--- initial values are used.
function options.for_table(where, common, given, master)
  if given == nil then given = {} end
  if type(given) ~= "table" then
    check.fail("[%s] expected a table of options; received %s", where, check.describe(given))
  end
  local out = {}
  for name, value in pairs(common) do out[name] = value end
  for _, name in ipairs(sorted(where, given)) do
    if has(table_names, name) then
      out[name] = text(where, name, given[name])
    elseif not has(rule_names, name) then
      check.unknown("[" .. where .. "]", "option", name, joined(rule_names, table_names))
    end
  end
  rule(where, given, out)
  local dtype = out.dtype or "float32"
  local kind = has(kinds.names, dtype) and kinds[dtype]
  if not kind then check.unknown("[" .. where .. "]", "dtype", dtype, kinds.names) end
  out.dtype = nil -- passed as an argument instead
  if out.strict ~= nil and out.strict ~= "true" and out.strict ~= "false" then
    check.fail("[%s] option strict: expected true or false; received %s", where, out.strict)
  end
  local strict = out.strict == "true"
  out.strict = nil -- handled by this module
  if master ~= 0 then out.init_rank = tostring(master) end
  return written(out), kind, strict
end

return options

--- The backend for plain Lua 5.1 to 5.4: the C module multiverso.core, with the same functions as backend_ffi.lua.
local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local version = _VERSION:match("%d%.%d")

--- Loads the module from package.cpath, or from a build of the source tree.
local function find()
  local good, found = pcall(require, "multiverso.core")
  if good then return found end
  local words = tostring(found)
  if not words:find("module 'multiverso.core' not found", 1, true) then error(words, 0) end
  for _, start in ipairs{"../", "../../../build/release/lua/"} do
    local path = here .. start .. version .. "/multiverso/core.so"
    local open, why = package.loadlib(path, "luaopen_multiverso_core")
    if open then
      local core = open()
      package.loaded["multiverso.core"] = core
      return core
    end
    words = words .. "\n\t" .. tostring(why)
  end
  error(words, 0)
end

return find()

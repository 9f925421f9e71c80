--- Chooses the backend: LuaJIT's FFI if available, otherwise the C module multiverso.core for this version of Lua.
local wanted = os.getenv("MULTIVERSO_LUA_BACKEND")
if wanted ~= "c" and pcall(require, "ffi") then return require "multiverso.backend_ffi" end
return require "multiverso.backend_c"

rockspec_format = "3.0"
package = "multiverso"
version = "scm-1"
source = {url = "git+file://."}
description = {
  summary = "Multiverso's Lua API over Pleiad: tables of numbers that many processes add to and get from",
  license = "Apache-2.0",
}
dependencies = {"lua >= 5.1, < 5.5"}
supported_platforms = {"linux"}
external_dependencies = {PLEIAD = {header = "pleiad/pleiad.h"}}
-- In this folder: luarocks make PLEIAD_DIR=<where libpleiad is installed>
build = {
  type = "builtin",
  modules = {
    ["multiverso"] = "multiverso/init.lua",
    ["multiverso.backend"] = "multiverso/backend.lua",
    ["multiverso.backend_c"] = "multiverso/backend_c.lua",
    ["multiverso.backend_ffi"] = "multiverso/backend_ffi.lua",
    ["multiverso.check"] = "multiverso/check.lua",
    ["multiverso.data"] = "multiverso/data.lua",
    ["multiverso.kinds"] = "multiverso/kinds.lua",
    ["multiverso.library"] = "multiverso/library.lua",
    ["multiverso.options"] = "multiverso/options.lua",
    ["multiverso.tables"] = "multiverso/tables.lua",
    ["multiverso.tensor"] = "multiverso/tensor.lua",
    ["multiverso.torch_adapter"] = "multiverso/torch_adapter.lua",
    ["multiverso.core"] = {sources = {"core.c"}, incdirs = {"$(PLEIAD_INCDIR)"}, libraries = {"dl"}},
  },
}

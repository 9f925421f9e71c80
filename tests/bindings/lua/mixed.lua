--- The Lua workers of a job whose other workers run Python (tests/bindings/lua/mixed.py).
local multiverso = require "multiverso"

multiverso.init{log_level = "off", timeout = 600}
local id = multiverso.worker_id()
local matrix = multiverso.MatrixTableHandler:new(4, 3, {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}})
matrix:add({{id + 1, id + 1, id + 1}}, {2})
multiverso.barrier()
local values = {}
for _, row in ipairs(matrix:get():totable()) do values[#values + 1] = ("%g"):format(row[1]) end
io.stdout:write(("lua %d: %s\n"):format(id, table.concat(values, " ")))
io.stdout:flush()
multiverso.barrier()
multiverso.shutdown()

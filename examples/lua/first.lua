local multiverso = require "multiverso"

multiverso.init() -- init(true) creates synchronous tables
local table = multiverso.MatrixTableHandler:new(11, 3)
table:add({{1, 1, 1}, {2, 2, 2}}, {0, 10})
multiverso.barrier()
local row = table:get({10})[1]
if multiverso.worker_id() == 0 then
  print(("%d workers made row 10 = %g %g %g"):format(multiverso.num_workers(), row[1], row[2], row[3]))
end
multiverso.shutdown()

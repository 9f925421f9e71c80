import numpy

import multiverso as mv

mv.init()  # mv.init(sync=True) creates synchronous tables
table = mv.MatrixTableHandler(11, 3)
table.add(numpy.array([[1, 1, 1], [2, 2, 2]], numpy.float32), row_ids=[0, 10])
mv.barrier()
if mv.is_master_worker():
    print(mv.workers_num(), "workers made row 10 =", table.get([10])[0])
mv.shutdown()

"""mv.init(sync=False) is an asynchronous server: one worker adds and gets while the others call nothing at all."""

import multiverso as mv
import numpy as np
from report import report

mv.init(sync=False)
table = mv.ArrayTableHandler(4)
mv.barrier()
last = 0.0
if mv.worker_id() == mv.workers_num() - 1:
    for _ in range(3):
        table.add(np.full(4, 2, dtype=np.float32))
        last = float(table.get()[3])
mv.barrier()
report(mv.worker_id(), last=last, final=table.get(sync=True).tolist())
mv.shutdown()

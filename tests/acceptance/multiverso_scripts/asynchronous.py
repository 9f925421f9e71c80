"""Master initialisation and the asynchronous server (document 000, lines 29 to 50)."""

import multiverso as mv
import numpy as np
from report import report

mv.init()  # asynchronous by default
me, workers = mv.worker_id(), mv.workers_num()

# Every worker passes other values. Only the master's count.
size = 10
params = np.arange(size, dtype=np.float32) + 100 * me
# Create ArrayTableHandler for syncing parameters. In the constructor, Only
# the init_value from the master worker will be used in the initial model
tbh = mv.ArrayTableHandler(size, params)
# Wait for finishing the initializing phase.
mv.barrier()
# Get the initial model from the server.
params = tbh.get()
initial, shape = params.tolist(), params.shape

matrix = mv.MatrixTableHandler(3, 4, np.full((3, 4), me + 5, dtype=np.float32))
mv.barrier()
initial_matrix = matrix.get().tolist()
mv.barrier()

# The workers call add and get a different number of times, and nobody is blocked.
seen = []
for _ in range(me + 2):
    tbh.add(np.ones(size, dtype=np.float32))
    seen.append(float(tbh.get()[0]))
matrix.add(np.full((1, 4), me + 1, dtype=np.float32), row_ids=[1])

# To get the same results: barrier, and get with the argument sync set to True.
mv.barrier()
final = tbh.get(sync=True).tolist()
final_matrix = matrix.get(sync=True).tolist()
rows = matrix.get(row_ids=[2, 1]).tolist()
report(
    me,
    workers=workers,
    initial=initial,
    shape=shape,
    initial_matrix=initial_matrix,
    seen=seen,
    final=final,
    final_matrix=final_matrix,
    rows=rows,
)
mv.shutdown()

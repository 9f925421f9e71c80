"""The sync server: every get returns exactly the same results (document 000, lines 29 to 31)."""

import multiverso as mv
import numpy as np
from report import report

mv.init(sync=True)
me = mv.worker_id()
array = mv.ArrayTableHandler(7)
matrix = mv.MatrixTableHandler(5, 3)
rounds = []
for step in range(6):
    # Values whose float32 sum depends on the order, so that equal gets are no accident.
    array.add(np.float32(0.1) * (me + 1) + np.arange(7, dtype=np.float32) * np.float32(1e-7) * step)
    values = array.get()
    matrix.add(np.full((2, 3), me + 1, dtype=np.float32), row_ids=[0, 4])
    rows = matrix.get()
    rounds.append([values.tobytes().hex(), rows.tolist()])
    if step == 0:
        first = values.tolist()
report(me, rounds=rounds, first=first)
mv.shutdown()

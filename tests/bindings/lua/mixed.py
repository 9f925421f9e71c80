"""The Python workers of a job whose other workers run Lua (tests/bindings/lua/mixed.lua)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "capi"))

from binding import FLOAT32, Session, array  # noqa: E402

with Session() as session:
    worker = session.world.worker_id
    first = array(FLOAT32, [row for row in (1, 2, 3, 4) for _ in range(3)])
    matrix = session.matrix(4, 3, options="updater=multiverso/default", initial=first)
    matrix.add_rows([2], [worker + 1] * 3)
    session.barrier()
    values = " ".join(f"{value:g}" for value in matrix.get()[::3])
    os.write(1, f"python {worker}: {values}\n".encode())
    session.barrier()

"""The Python API of Multiverso, implemented by Pleiad.

    import multiverso as mv

    mv.init()
    table = mv.ArrayTableHandler(1000)
    table.add(gradient)
    mv.barrier()
    values = table.get()
    mv.shutdown()

docs/python.md describes each part.
"""

from multiverso.api import (
    barrier,
    init,
    is_master_worker,
    server_id,
    shutdown,
    worker_id,
    workers_num,
)
from multiverso.tables import ArrayTableHandler, MatrixTableHandler
from multiverso.theano_ext import compat as _compat

_compat.install()

__all__ = [
    "ArrayTableHandler",
    "MatrixTableHandler",
    "barrier",
    "init",
    "is_master_worker",
    "server_id",
    "shutdown",
    "worker_id",
    "workers_num",
]

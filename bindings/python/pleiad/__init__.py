"""Pleiad trains one model in many processes.

    import numpy, pleiad

    with pleiad.init() as session:                    # one process, or one rank of `pleiad launch -n 4 python script.py`
        weights = session.array(1000, name="weights")
        weights.add(numpy.ones(1000, numpy.float32))  # every worker adds
        session.barrier()
        print(weights.get()[0])                       # prints the number of workers

`pleiad.nn` (nets and training), `pleiad.torch`, `pleiad.jax` and `pleiad.keras` are separate modules, imported only when used.
"""

from pleiad import _core
from pleiad.errors import (
    Error,
    FileError,
    InternalError,
    Interrupted,
    InvalidArgument,
    MemoryError,
    OrderError,
    RuleError,
    StateError,
    TimeoutError,
    TransportError,
)
from pleiad.futures import Future
from pleiad.half import from_float32, to_float32
from pleiad.joining import join
from pleiad.objects import all_gather_object, broadcast_object, mean
from pleiad.options import Updater
from pleiad.rules import Rates, register_rule
from pleiad.sessions import Session, init, session
from pleiad.sharding import Sampler, shard
from pleiad.snapshots import Snapshots
from pleiad.sparse import KeyValueTable, SparseTable
from pleiad.tables import ArrayTable, MatrixTable

__version__ = _core.version()

__all__ = [
    "ArrayTable",
    "Error",
    "FileError",
    "Future",
    "InternalError",
    "Interrupted",
    "InvalidArgument",
    "KeyValueTable",
    "MatrixTable",
    "MemoryError",
    "OrderError",
    "Rates",
    "RuleError",
    "Sampler",
    "Session",
    "Snapshots",
    "SparseTable",
    "StateError",
    "TimeoutError",
    "TransportError",
    "Updater",
    "__version__",
    "all_gather_object",
    "broadcast_object",
    "from_float32",
    "init",
    "join",
    "mean",
    "register_rule",
    "session",
    "shard",
    "to_float32",
]

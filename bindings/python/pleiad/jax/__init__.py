"""Pleiad for JAX: pytrees of arrays, exchanged as one buffer.

    import pleiad, pleiad.jax

    session = pleiad.init()                              # a rank of `mpirun -np 4 python script.py`, or alone
    params = pleiad.jax.broadcast(params)                # all ranks begin with those of rank 0
    ...
    grads = pleiad.jax.all_reduce(jax.grad(loss)(params, batch))   # the average of all ranks

Both work inside `jax.jit`, `lax.scan` and `lax.fori_loop` too. `ParameterManager` keeps the parameters in a table instead,
synchronously or asynchronously.
"""

from pleiad.jax.collectives import all_reduce, broadcast
from pleiad.jax.manager import ParameterManager

__all__ = ["ParameterManager", "all_reduce", "broadcast"]

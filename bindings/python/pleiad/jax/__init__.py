"""Pleiad for JAX: pytrees of arrays, each exchanged as one buffer.

    import pleiad, pleiad.jax

    session = pleiad.init()                              # one process, or one rank of `pleiad launch -n 4 python script.py`
    params = pleiad.jax.broadcast(params)                # all ranks start with the parameters of rank 0
    ...
    grads = pleiad.jax.all_reduce(jax.grad(loss)(params, batch))   # the average over all ranks

Both functions also work inside `jax.jit`, `lax.scan` and `lax.fori_loop`. `ParameterManager` keeps the parameters in a shared
table instead, synchronously or asynchronously.
"""

from pleiad.jax.collectives import all_reduce, broadcast
from pleiad.jax.manager import ParameterManager

__all__ = ["ParameterManager", "all_reduce", "broadcast"]

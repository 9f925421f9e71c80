"""Pleiad for Keras 3, on PyTorch and on JAX.

    import pleiad, pleiad.keras

    session = pleiad.init()                              # a rank of `mpirun -np 4 python script.py`, or alone
    model.compile(loss="mse", optimizer=pleiad.keras.DistributedOptimizer(keras.optimizers.Adam(), model=model))
    model.fit(x, y, callbacks=[pleiad.keras.AverageMetrics()])

`DistributedOptimizer` averages gradients before every step: all ranks keep the same model, which is that of one process on the
joined batch. `AverageMetrics` gives the callbacks after it the metrics of all ranks, so that all decide alike. `Join` lets
ranks have different numbers of batches. `Sync` keeps the weights in one table instead, synchronously or asynchronously.
"""

from pleiad.keras.joining import Join
from pleiad.keras.metrics import AverageMetrics
from pleiad.keras.optimizer import DistributedOptimizer
from pleiad.keras.sync import Sync

__all__ = ["AverageMetrics", "DistributedOptimizer", "Join", "Sync"]

"""Pleiad for Keras 3 on the PyTorch and JAX backends.

    import pleiad, pleiad.keras

    session = pleiad.init()                              # one process, or one rank of `pleiad launch -n 4 python script.py`
    model.compile(loss="mse", optimizer=pleiad.keras.DistributedOptimizer(keras.optimizers.Adam(), model=model))
    model.fit(x, y, callbacks=[pleiad.keras.AverageMetrics()])

`DistributedOptimizer` averages gradients before every step, so all ranks keep the same model, equal to that of one process on
the joined batch. `AverageMetrics` averages the metrics over all ranks, so that the callbacks after it decide alike on all ranks.
`Join` supports ranks with different numbers of batches. `Sync` keeps the weights in one shared table instead, synchronously or
asynchronously.
"""

from pleiad.keras.joining import Join
from pleiad.keras.metrics import AverageMetrics
from pleiad.keras.optimizer import DistributedOptimizer
from pleiad.keras.sync import Sync

__all__ = ["AverageMetrics", "DistributedOptimizer", "Join", "Sync"]

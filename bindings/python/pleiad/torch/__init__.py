"""Pleiad for PyTorch.

    import pleiad, pleiad.torch

    session = pleiad.init()                  # one process, or one rank of `pleiad launch -n 4 python script.py`
    optimizer = pleiad.torch.DistributedOptimizer(optimizer, module=model)

`DistributedOptimizer` averages gradients before every step, so all ranks keep the same model. `ParameterManager` keeps the
parameters of a module in one shared table, synchronously or asynchronously. `Embedding` keeps its rows in a matrix table and
fetches only those of the batch. `shard` gives each rank its shard of a dataset, and `join` supports ranks with different
numbers of batches. `Checkpoint` saves and restores the whole training loop. `init_process_group` makes libraries that train
with DDP (accelerate, Trainer, Lightning) train over Pleiad. `all_reduce_gradients` and `broadcast_parameters` are for loops
that update parameters without an optimizer.
"""

from pleiad.torch.checkpoint import Checkpoint
from pleiad.torch.embedding import Embedding
from pleiad.torch.joining import join
from pleiad.torch.loader import shard
from pleiad.torch.manager import ParameterManager
from pleiad.torch.manual import all_reduce_gradients, broadcast_parameters
from pleiad.torch.optimizer import DistributedOptimizer
from pleiad.torch.process_group import init_process_group

__all__ = [
    "Checkpoint",
    "DistributedOptimizer",
    "Embedding",
    "ParameterManager",
    "all_reduce_gradients",
    "broadcast_parameters",
    "init_process_group",
    "join",
    "shard",
]

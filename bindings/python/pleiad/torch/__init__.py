"""Pleiad for PyTorch.

    import pleiad, pleiad.torch

    session = pleiad.init()                                        # a rank of `mpirun -np 4 python script.py`, or alone
    optimizer = pleiad.torch.DistributedOptimizer(optimizer, module=model)

`DistributedOptimizer` averages gradients before every step: all ranks keep the same model. `ParameterManager` keeps a
module's parameters in one table, synchronously or asynchronously. `Embedding` keeps its rows in a matrix table and
fetches those of the batch alone. `init_process_group` lets libraries that train by DDP (accelerate, Trainer, Lightning) train
over Pleiad.
"""

from pleiad.torch.embedding import Embedding
from pleiad.torch.manager import ParameterManager
from pleiad.torch.optimizer import DistributedOptimizer
from pleiad.torch.process_group import init_process_group

__all__ = ["DistributedOptimizer", "Embedding", "ParameterManager", "init_process_group"]

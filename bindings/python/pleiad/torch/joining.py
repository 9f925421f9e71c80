"""Training loops in which the ranks have different numbers of batches, for DistributedOptimizer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument
from pleiad.joining import WHERE, Join
from pleiad.torch.optimizer import DistributedOptimizer


def join(
    batches: Iterable[Any], *optimizers: DistributedOptimizer, divide_by_initial_world_size: bool = True
) -> "TorchJoin":
    """Iterates over the batches of this rank until every rank has run out of batches. Collective.

        for x, y in pleiad.torch.join(loader, optimizer):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

    A rank that has run out of batches receives its last batch again, and its gradients count as zero. All ranks therefore keep
    the same model, optimizer state and schedules, and can clip and unscale gradients as usual. The iterator's attribute
    `active` is False for a batch that does not count, so `batches = join(...)` allows
    `pleiad.mean(loss, weight=batches.weight)`. If you set gradients by hand, set them to zero for such a batch.

    Args:
        batches: the batches of this rank.
        optimizers: all DistributedOptimizers that train in the loop.
        divide_by_initial_world_size: if True, divide the sum of the gradients by the number of all ranks, as DDP's join does;
            if False, divide by the number of ranks that still have batches.
    """
    for optimizer in optimizers:
        if not isinstance(optimizer, DistributedOptimizer):
            raise InvalidArgument(f"[{WHERE}] expected a DistributedOptimizer; received {type(optimizer).__name__}")
    if not optimizers:
        raise InvalidArgument(f"[{WHERE}] expected the optimizers that train in the loop; received none")
    if any(optimizer.session is not optimizers[0].session for optimizer in optimizers):
        raise InvalidArgument(f"[{WHERE}] expected optimizers of one session; received optimizers of several sessions")
    return TorchJoin(batches, list(optimizers), divide_by_initial_world_size)


class TorchJoin(Join):
    """The iterator that `join` returns. Scales the gradients of this rank before PyTorch accumulates them."""

    def __init__(self, batches: Iterable[Any], optimizers: list[DistributedOptimizer], by_initial: bool) -> None:
        super().__init__(batches, optimizers[0].session)
        self._optimizers = optimizers
        self._by_initial = by_initial
        self._hooks: dict[Tensor, Any] = {}

    @property
    def _factor(self) -> float:
        if not self.active:
            return 0.0
        return 1.0 if self._by_initial else self.session.size / self.active_ranks

    def _next(self) -> None:
        if self.session.size == 1:
            return
        for optimizer in self._optimizers:
            optimizer.set_active(self.active, self.active_ranks)
            for rows in optimizer.rows:
                rows.factor = self._factor
            for group in optimizer.param_groups:
                for x in group["params"]:  # checked at each batch, because the user may have unfrozen a parameter
                    if x.requires_grad and x not in self._hooks and not hasattr(x, "_pleiad_embedding"):
                        self._hooks[x] = x.register_hook(self._scale)

    def _scale(self, grad: Tensor) -> Tensor | None:
        factor = self._factor
        if factor == 1.0:
            return None
        return grad * factor if factor else torch.zeros_like(grad)

    def _end(self) -> None:
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()
        for optimizer in self._optimizers:
            optimizer.set_active(True, self.session.size)
            for rows in optimizer.rows:
                rows.factor = 1.0

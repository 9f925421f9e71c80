"""Different numbers of batches on the ranks, for DistributedOptimizer."""

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
    """The batches of this rank, for a loop that trains until all ranks have run out of batches. Collective.

        for x, y in pleiad.torch.join(loader, optimizer):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

    A rank that has run out gets its last batch again, but its gradients count as zero. All ranks keep the same model,
    optimizer state and schedules, and may clip and unscale as always. `active` of the iterator is False for a batch that does
    not count: `batches = join(...)`, then `pleiad.mean(loss, weight=batches.weight)`. Gradients that you set by hand
    must be zero then.

    optimizers: all wrapped optimizers that train in the loop. divide_by_initial_world_size: as in DDP's join, the sum of the
    gradients is divided by the number of all ranks; False divides by that of the ranks that still have batches.
    """
    for optimizer in optimizers:
        if not isinstance(optimizer, DistributedOptimizer):
            raise InvalidArgument(f"[{WHERE}] expected a DistributedOptimizer; received {type(optimizer).__name__}")
    if not optimizers:
        raise InvalidArgument(f"[{WHERE}] expected the optimizers that train in the loop; received none")
    if any(optimizer.session is not optimizers[0].session for optimizer in optimizers):
        raise InvalidArgument(f"[{WHERE}] expected optimizers of one session; received several")
    return TorchJoin(batches, list(optimizers), divide_by_initial_world_size)


class TorchJoin(Join):
    """Made by `join`. Scales the gradients of this rank before they are accumulated."""

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
                for x in group["params"]:  # looked at each time, because a parameter may have been unfrozen
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

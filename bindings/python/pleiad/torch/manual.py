"""Gradient averaging and parameter broadcast for training loops without an optimizer."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.torch.buckets import make_buckets
from pleiad.torch.flat import describe
from pleiad.torch.rows import plain_parameters
from pleiad.torch.start import broadcast
from pleiad.worlds import agree, all_workers

BUCKET_BYTES = 4 << 20
Parameters = torch.nn.Module | Iterable[Tensor]


def broadcast_parameters(parameters: Parameters, *, root: int = 0, session: Session | None = None) -> None:
    """Copies the values of the rank `root` to all ranks. `parameters` is a module, whose buffers are included, or an iterable
    of tensors. Collective. `DistributedOptimizer` and `ParameterManager` do this at construction."""
    where = "torch.broadcast_parameters"
    found = all_workers(session, where)
    named = _named(parameters, where)
    if isinstance(parameters, torch.nn.Module):
        named += list(parameters.named_buffers())
    agree(found, where, describe(named))
    for _, x in named:
        broadcast(found, x, root)


def all_reduce_gradients(parameters: Parameters, *, average: bool = True, session: Session | None = None) -> None:
    """Averages the gradients of a module or of the given tensors over all ranks, or sums them with average=False. Use it in
    loops that update parameters by hand:

        pleiad.torch.broadcast_parameters(model)          # once
        loss.backward()
        pleiad.torch.all_reduce_gradients(model)
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad

    Call it once per update, after the last backward pass, because each call exchanges the gradients again. A rank without a
    gradient contributes zero. A gradient that no rank has stays None. Collective.
    """
    where = "torch.all_reduce_gradients"
    found = all_workers(session, where)
    named = [(name, x) for name, x in _named(parameters, where) if x.requires_grad]
    if found.size == 1:
        return
    # 0: no gradient; 1: dense; 2: sparse. Ranks with different numbers of parameters fail here by the size of this tensor.
    kinds = torch.tensor([0 if x.grad is None else 1 + x.grad.is_sparse for _, x in named], dtype=torch.int32)
    found.all_reduce(kinds, "max")
    used = [(pair, kind) for pair, kind in zip(named, kinds.tolist(), strict=True) if kind]
    sparse = {id(x) for (_, x), kind in used if kind == 2}
    for bucket in make_buckets([pair for pair, _ in used], BUCKET_BYTES, sparse):
        bucket.exchange(found, "mean" if average else "sum")


def _named(parameters: Parameters, where: str) -> list[tuple[str, Tensor]]:
    if isinstance(parameters, torch.nn.Module):
        return plain_parameters(parameters)
    if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable):
        raise InvalidArgument(f"[{where}] expected a module or tensors; received {type(parameters).__name__}")
    named = [(f"parameter {i}", x) for i, x in enumerate(parameters)]
    for name, x in named:
        if not isinstance(x, Tensor):
            raise InvalidArgument(f"[{where}] {name}: expected a tensor; received {type(x).__name__}")
    return named

"""The exchange of gradients on Keras' PyTorch backend."""

from typing import Any

import torch

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.torch.flat import HALF


def exchange(
    session: Session,
    grads: list[Any],
    variables: list[Any],
    average: bool,
    where: str,
    joined: bool = False,
    active: bool = True,
) -> tuple[list[Any], int]:
    """Averages (or sums) the gradients of all ranks. A gradient that only some ranks have counts as zero on the others; one that
    no rank has stays None. With `joined`, ranks that have run out of batches are not `active`, and the second result is the
    number of active ranks. Collective."""
    if len(grads) != len(variables):
        raise InvalidArgument(
            f"[{where}] expected {len(variables)} gradients, one for each variable; received {len(grads)}"
        )
    for x, variable in zip(grads, variables, strict=True):
        if x is not None and x.layout != torch.strided:
            raise InvalidArgument(f"[{where}] the gradient of {variable.path} is sparse; set sparse=False on the layer")
    used = torch.tensor([*(int(x is not None) for x in grads), *([int(active)] if joined else [])], dtype=torch.int32)
    session.all_reduce(used)
    made = list(grads)
    parts: dict[torch.dtype, list[int]] = {}
    for i, anyone in enumerate(used.tolist()[: len(grads)]):
        if anyone:
            kind = variables[i].value.dtype
            parts.setdefault(torch.float32 if kind in HALF else kind, []).append(i)
    with torch.no_grad():
        for kind, chosen in parts.items():
            held = [torch.zeros_like(variables[i].value) if grads[i] is None else grads[i] for i in chosen]
            line = torch.cat([x.detach().to("cpu", kind).reshape(-1) for x in held])
            session.all_reduce(line, "mean" if average else "sum")
            begin = 0
            for i, x in zip(chosen, held, strict=True):
                made[i] = line[begin : begin + x.numel()].view(x.shape).to(x.device, x.dtype)
                begin += x.numel()
    return made, int(used[-1]) if joined else session.size

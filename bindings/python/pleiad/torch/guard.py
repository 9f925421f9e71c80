"""Detects libraries that would train a separate model on each rank. accelerate, the Trainer of transformers and Lightning do so
silently if they do not recognise the launcher of the processes."""

import sys
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from pleiad import sessions
from pleiad.errors import StateError

LIBRARIES = ("accelerate", "transformers", "lightning", "pytorch_lightning")
_checked: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
_enabled = True
_reduced = 0  # number of values that the process group has reduced
_before = 0  # value of _reduced at the last step of an optimizer


def enable(check: bool) -> None:
    """Enables or disables the check of an optimizer's first step."""
    global _enabled
    _enabled = check


def count_reduced(values: int) -> None:
    """Adds to the number of reduced values. The process group calls it for each reduction."""
    global _reduced
    _reduced += values


def excuse(parameters: Any) -> None:
    """Exempts these parameters from the check, because a ParameterManager exchanges them after the optimizer's step."""
    for x in parameters:
        x._pleiad_managed = True


def _check(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Runs after every step of a PyTorch optimizer. Raises a StateError at its first step if no rank exchanged gradients."""
    global _before
    if optimizer in _checked:
        _before = _reduced
        return
    found = sessions._current
    if found is None or found.size == 1 or not _enabled:
        return
    _checked.add(optimizer)
    library = _library()
    if library is None or getattr(optimizer, "_pleiad_wrapper", lambda: None)() is not None:
        return
    if (
        torch.distributed.is_initialized()
        and torch.distributed.get_backend() != "pleiad"
        and not _ignores_group(library)
    ):
        return
    own = [
        x
        for group in optimizer.param_groups
        for x in group["params"]
        if x.grad is not None and not hasattr(x, "_pleiad_managed")
    ]
    if _reduced - _before < sum(x.numel() for x in own):
        raise StateError(
            f"[pleiad.torch] {library} made a step with the gradients of this rank alone, so each of the {found.size} ranks "
            f"would train a model of its own; call pleiad.torch.init_process_group() after pleiad.init() and before {library} "
            f'starts (with Lightning also pass strategy="ddp" and devices), or wrap the optimizer in '
            f"pleiad.torch.DistributedOptimizer"
        )


def _ignores_group(library: str) -> bool:
    """Returns whether accelerate does not use the process group that exists. Under torchrun, without a GPU and without
    ACCELERATE_USE_CPU, it starts a group of gloo but does not wrap models by DDP."""
    if library not in ("accelerate", "transformers"):
        return False
    accelerate = sys.modules["accelerate"]
    return bool(accelerate.PartialState().distributed_type == accelerate.DistributedType.NO)


def _library() -> str | None:
    """Returns the name of the known library that called the optimizer, or None."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        if name in LIBRARIES:
            return str(name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


register_optimizer_step_post_hook(_check)

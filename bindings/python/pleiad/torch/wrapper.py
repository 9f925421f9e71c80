"""An optimizer that forwards to another one."""

from typing import Any

import torch


def _of_inner(name: str) -> property:
    """Returns a property that forwards to the wrapped optimizer."""
    return property(
        lambda self: getattr(self.optimizer, name),
        lambda self, value: setattr(self.optimizer, name, value),
        lambda self: delattr(self.optimizer, name),
        f"The attribute `{name}` of the wrapped optimizer.",
    )


class OptimizerWrapper(torch.optim.Optimizer):
    """Has the attributes of the optimizer that it wraps. The subclass sets `optimizer` and defines `step`."""

    optimizer: torch.optim.Optimizer

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The parameter groups of the wrapped optimizer."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the wrapped optimizer."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The default options of the wrapped optimizer."""
        return self.optimizer.defaults

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the wrapped optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state into the wrapped optimizer. All ranks must load the same state."""
        self.optimizer.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets the gradients, as the wrapped optimizer does."""
        self.optimizer.zero_grad(set_to_none)

    # GradScaler sets and deletes these attributes of a fused optimizer, whose step divides by the scale itself.
    grad_scale = _of_inner("grad_scale")
    found_inf = _of_inner("found_inf")

"""Detects that a state dict was loaded into a module."""

from typing import Any

import torch


class LoadHook:
    """Sets `since` to True when `load_state_dict` is called on the module or one of its submodules."""

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        self.since = False
        if module is not None:
            for part in module.modules():
                part.register_load_state_dict_post_hook(self)  # type: ignore[no-untyped-call]

    def __call__(self, module: torch.nn.Module, keys: Any) -> None:
        self.since = True

    def __reduce__(self) -> Any:
        return LoadHook, ()  # copied and unpickled modules have no manager

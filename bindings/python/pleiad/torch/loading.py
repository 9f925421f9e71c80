"""Notices that a state was loaded into a module."""

from typing import Any

import torch


class LoadHook:
    """`since` becomes True when `load_state_dict` is called on the module or on a part of it."""

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        self.since = False
        if module is not None:
            for part in module.modules():
                part.register_load_state_dict_post_hook(self)  # type: ignore[no-untyped-call]

    def __call__(self, module: torch.nn.Module, keys: Any) -> None:
        self.since = True

    def __reduce__(self) -> Any:
        return LoadHook, ()  # copies of the module, in memory or in a file, have no manager

"""Selects Theano or PyTensor: the one that the script has already imported, otherwise the first that is installed."""

import sys
from importlib.util import find_spec
from typing import Any


def load() -> Any:
    """Returns the module `theano` or `pytensor`, which have the same shared variables."""
    for name in ("theano", "pytensor"):
        if name in sys.modules:
            return sys.modules[name]
    if _installed("theano"):
        from multiverso.theano_ext import compat

        compat.prepare_theano()
        import theano

        return theano
    if _installed("pytensor"):
        import pytensor

        return pytensor
    raise ImportError(
        "multiverso.theano_ext needs Theano or PyTensor, and neither is installed: "
        "pip install '.[theano]' in Pleiad's source tree (Python 3.11), or pip install pytensor"
    )


def _installed(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.origin is not None  # excludes folders of that name, which are not packages

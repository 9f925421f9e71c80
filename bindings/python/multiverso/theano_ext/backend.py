"""Theano, or PyTensor: the one that the script has imported already, else the first that is installed."""

import sys
from importlib.util import find_spec
from types import ModuleType


def load() -> ModuleType:
    """The module `theano`, or `pytensor`, which has the same shared variables."""
    for name in ("theano", "pytensor"):
        if name in sys.modules:
            return sys.modules[name]
    if find_spec("theano"):
        from multiverso.theano_ext import compat

        compat.prepare_theano()
        import theano

        return theano
    if find_spec("pytensor"):
        import pytensor

        return pytensor
    raise ImportError(
        "multiverso.theano_ext needs Theano or PyTensor, and neither is installed: "
        "pip install pleiad[theano] (Python 3.11), or pip install pytensor"
    )

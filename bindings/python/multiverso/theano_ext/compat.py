"""Makes the original packages work on Python 3.11: Theano 1.0.5, Lasagne 0.1, Keras 1.2.2 and 2.3.1.

Call a function here before the import that it is for. `multiverso.theano_ext.lasagne_ext` and `keras_ext` do so when
they are imported. What is there already is left alone, so that on other versions the calls have no effect.
"""

import collections
import collections.abc
import configparser
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

# Names that were both in `collections` and in `collections.abc` until Python 3.9.
MOVED = ("Callable", "Container", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping", "MutableSequence")
MOVED += ("MutableSet", "Sequence", "Set", "Sized")


def prepare_theano() -> None:
    """For `import theano`: names the BLAS library (OpenBLAS) unless THEANO_FLAGS or .theanorc do; Theano fails to import
    where it has to ask today's numpy for it."""
    flags = os.environ.get("THEANO_FLAGS", "")
    if "blas.ldflags" not in flags and "theano" not in sys.modules and not _theanorc_names_blas():
        os.environ["THEANO_FLAGS"] = ",".join(filter(None, [flags, "blas.ldflags=-lopenblas"]))


def prepare_lasagne() -> None:
    """For `import lasagne`: supplies the module `theano.tensor.signal.downsample`, which Theano 1.0 no longer has, when it
    is asked for."""
    prepare_theano()
    if not any(isinstance(finder, _DownsampleFinder) for finder in sys.meta_path):
        sys.meta_path.append(_DownsampleFinder())


def prepare_keras() -> None:
    """For `import keras` of version 1 or 2: puts the old names back into `collections`, chooses the Theano back end unless
    KERAS_BACKEND chooses, and imports `theano.ifelse`, which Keras 1 uses without importing it. Keras 3 needs nothing."""
    try:
        if int(version("keras").partition(".")[0]) >= 3:
            return
    except PackageNotFoundError:
        return
    for name in MOVED:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    if os.environ.setdefault("KERAS_BACKEND", "theano") == "theano":
        prepare_theano()
        import theano.ifelse  # noqa: F401


def _theanorc_names_blas() -> bool:
    files = os.environ.get("THEANORC", "~/.theanorc").split(os.pathsep)
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read([os.path.expanduser(file) for file in files])
    except configparser.Error:
        return False  # Theano says what is wrong with the file
    return settings.has_option("blas", "ldflags")


class _DownsampleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last of the finders: asked only where Theano has no such module."""

    NAME = "theano.tensor.signal.downsample"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == self.NAME else None

    def exec_module(self, module: ModuleType) -> None:
        from theano.tensor.signal.pool import pool_2d

        def max_pool_2d(
            input: Any, ds: Any, ignore_border: Any = None, st: Any = None, padding: Any = (0, 0), mode: str = "max"
        ) -> Any:
            return pool_2d(input, ws=ds, ignore_border=ignore_border, stride=st, pad=padding, mode=mode)

        module.max_pool_2d = max_pool_2d  # type: ignore[attr-defined]

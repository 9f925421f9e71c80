"""Makes the original packages work on Python 3.11: Theano 1.0.5, Lasagne 0.1, Keras 1.2.2 and 2.3.1.

`import multiverso` calls `install`, which prepares each package when it is imported later. Names that exist already stay as they
are, so nothing changes on other versions.
"""

import collections
import collections.abc
import configparser
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

# Names that were available in both `collections` and `collections.abc` until Python 3.9.
MOVED = [
    "Callable",
    "Container",
    "Hashable",
    "Iterable",
    "Iterator",
    "Mapping",
    "MutableMapping",
    "MutableSequence",
    "MutableSet",
    "Sequence",
    "Set",
    "Sized",
]


def install() -> None:
    """Registers the preparation of Theano, Lasagne and Keras, which happens when they are imported, in any order."""
    if not any(isinstance(finder, _OldPackages) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldPackages())


def prepare_theano() -> None:
    """Prepares `import theano`. Names the BLAS library (OpenBLAS) unless THEANO_FLAGS or .theanorc do, because Theano's import
    fails if it has to ask a current NumPy. Replaces a device of the old GPU back end, such as `gpu0`, by one of Theano 1.0."""
    if "theano" in sys.modules:
        return
    flags = _with_new_devices([flag for flag in os.environ.get("THEANO_FLAGS", "").split(",") if flag])
    if not any(flag.startswith("blas.ldflags") for flag in flags) and not _theanorc_names_blas():
        flags.append("blas.ldflags=-lopenblas")
    if flags:
        os.environ["THEANO_FLAGS"] = ",".join(flags)


def _with_new_devices(flags: list[str]) -> list[str]:
    """Replaces `device=gpu0` by `device=cuda0` if there is such a device, otherwise by the CPU with a notice."""
    changed = []
    for flag in flags:
        name, _, value = flag.partition("=")
        old = re.fullmatch(r"gpu(\d*)", value.strip()) if name.strip() in ("device", "init_gpu_device") else None
        if old is None:
            changed.append(flag)
        elif _has_cuda_device(int(old[1] or 0)):
            changed.append(f"{name}=cuda{old[1]}")
        else:
            print(
                f"multiverso: THEANO_FLAGS asks for {value.strip()}; no such CUDA device was found (Theano 1.0 needs "
                "pygpu for it), so Theano computes on the CPU",
                file=sys.stderr,
                flush=True,
            )
            if name.strip() == "device":
                changed.append("device=cpu")
    if changed == flags:
        return flags
    # The memory pool of the old back end has another name in the new one, and does not exist on the CPU.
    pool = [flag.partition("=")[2] for flag in changed if flag.startswith("lib.cnmem=")]
    changed = [flag for flag in changed if not flag.startswith("lib.cnmem=")]
    if pool and any("=cuda" in flag for flag in changed):
        changed.append(f"gpuarray.preallocate={pool[0]}")
    return changed


def _has_cuda_device(number: int) -> bool:
    return importlib.util.find_spec("pygpu") is not None and os.path.exists(f"/dev/nvidia{number}")


class _OldPackages(importlib.abc.MetaPathFinder):
    """Finds no modules itself. Prepares the package that is about to be imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "theano.scan_module.scan_perform_ext" and sys.version_info >= (3, 11):
            # Its C code needs older versions of Python. Theano then runs the loop of a scan in Python; the repeated step is
            # compiled as before.
            raise ImportError("Theano's C code for scan does not compile on Python 3.11 and later")
        prepare = {"theano": prepare_theano, "lasagne": prepare_lasagne, "keras": prepare_keras}.get(name)
        if prepare is not None and importlib.machinery.PathFinder.find_spec(name, path) is not None:
            prepare()
        return None


def prepare_lasagne() -> None:
    """Prepares `import lasagne`: supplies the module `theano.tensor.signal.downsample`, which Theano 1.0 no longer has, when it
    is imported."""
    prepare_theano()
    if not any(isinstance(finder, _DownsampleFinder) for finder in sys.meta_path):
        sys.meta_path.append(_DownsampleFinder())


def prepare_keras() -> None:
    """Prepares `import keras` of version 1 or 2: adds the old names to `collections`, selects the Theano back end unless
    KERAS_BACKEND is set, and imports `theano.ifelse`, which Keras 1 uses without importing it. Keras 3 needs nothing."""
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
    files = [
        file for file in files if file != os.path.join(sys.prefix, "theanorc")
    ]  # from the environment, not from the user
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read([os.path.expanduser(file) for file in files])
    except configparser.Error:
        return False  # Theano itself reports what is wrong with the file
    return settings.has_option("blas", "ldflags")


class _DownsampleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last of the finders, which is asked only if Theano has no such module."""

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

"""The helpers that Multiverso has for its C library."""

import ctypes
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

import pleiad


class Loader:
    """Loads libmultiverso.so. The tables of this package do not use it: `MV_Init` of the library opens its own session, which a
    process that has called `multiverso.init()` cannot have in addition."""

    LIB: Any = None

    @classmethod
    def get_lib(cls) -> Any:
        if cls.LIB is None:
            cls.LIB = cls.load_lib()
        return cls.LIB

    @classmethod
    def load_lib(cls) -> Any:
        path = cls._find()
        if path is None:
            raise ImportError("libmultiverso.so is neither beside the package nor among the system's libraries")
        library = ctypes.CDLL(path)
        library.MV_NumWorkers.restype = ctypes.c_int
        return library

    @staticmethod
    def _find() -> str | None:
        package = Path(pleiad.__file__).resolve().parent
        build = Path(pleiad.__file__).parent.parent.parent  # a build tree contains links to the sources
        for folder in (package / "lib", build / "lib"):
            for path in sorted(folder.glob("libmultiverso.so*")):
                return str(path)
        return find_library("multiverso")


def convert_data(data: Any) -> NDArray[numpy.float32]:
    """Returns a copy of the data as a float32 array."""
    return numpy.array(data, dtype=numpy.float32)

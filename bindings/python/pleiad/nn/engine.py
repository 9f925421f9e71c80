"""The C++ engine, with an error that names the libraries it needs."""

try:
    from pleiad import _nn
except ImportError as problem:
    raise ImportError(
        "pleiad.nn needs the libraries oneDNN, OpenBLAS and libgomp (Debian: libdnnl2 libopenblas0 libgomp1): "
        f"{problem}"
    ) from problem

__all__ = ["_nn"]

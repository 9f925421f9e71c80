"""The C++ engine, loaded as it should be."""

import os

# How often a thread that waits for another looks before it sleeps. libgomp's own 300,000 are milliseconds, in which a
# machine that has other work to do does none of it: a net of two threads was 20 times slower there.
SPINS = "2000"

# libgomp reads its environment when it is loaded; whoever loads one of his own later finds it as it was.
_chosen = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
if not _chosen:
    os.environ["GOMP_SPINCOUNT"] = SPINS
try:
    from pleiad import _nn
except ImportError as problem:
    raise ImportError(
        "pleiad.nn needs the libraries oneDNN, OpenBLAS and libgomp (Debian: libdnnl2 libopenblas0 libgomp1): "
        f"{problem}"
    ) from problem
finally:
    if not _chosen:
        del os.environ["GOMP_SPINCOUNT"]

__all__ = ["_nn"]

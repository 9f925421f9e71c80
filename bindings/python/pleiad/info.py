"""Prints what is installed, the ranks and hosts, and the timings of a small job.

python -m pleiad.info
pleiad launch -n 4 python -m pleiad.info
"""

import argparse
import ctypes
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

import pleiad
from pleiad import _core

# Names on the package index.
FRAMEWORKS = ("torch", "jax", "keras", "Theano", "pytensor", "Lasagne", "mpi4py")
SIZE = 100_000
ROUNDS = 100


def library_path() -> str:
    """Returns the path of the libpleiad that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libpleiad.so" in line:
            return line.split(maxsplit=5)[-1]
    return "not found"


def engines() -> str:
    """Returns the engines that `init` accepts, and why the one for MPI is missing."""
    try:
        ctypes.CDLL(str(Path(library_path()).parent / "libpleiad_mpi.so"))
    except OSError as problem:
        return f"solo (no MPI: {problem})"
    return "solo, mpi"


def versions() -> Iterator[tuple[str, str]]:
    """Yields the names and versions of Pleiad, Python, the frameworks and the launchers that are installed."""
    yield "pleiad", pleiad.__version__
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "numpy", numpy.__version__
    for name in FRAMEWORKS:
        try:
            yield name.lower(), importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    yield "extension", str(_core.__file__)
    yield "library", library_path()
    yield "engines", engines()
    yield "mpirun", shutil.which("mpirun") or "none on the PATH"


def exercise(session: pleiad.Session) -> None:
    """Runs a few operations of each kind, so that the session has timings."""
    table = session.array(SIZE, name=f"{SIZE:,} floats")
    delta = numpy.ones(SIZE, numpy.float32)
    out = numpy.empty_like(delta)
    for _ in range(ROUNDS):
        table.add(delta)
        table.get(out)
    rows = session.matrix(SIZE // 100, 100, name="8 of 1,000 rows")
    few = numpy.ones((8, 100), numpy.float32)
    for first in range(ROUNDS):
        rows.add(few, rows=range(first, first + 8))
        rows.get(rows=range(first, first + 8))
        session.all_reduce(delta[:1000])
    session.barrier()


def main() -> None:
    """Runs the report; every rank takes part, and rank 0 prints."""
    parser = argparse.ArgumentParser("pleiad.info", description="Print what is installed, the ranks, and timings.")
    parser.add_argument("--version", action="version", version=f"pleiad {pleiad.__version__}")
    parser.parse_args()
    level: Any = os.environ.get("PLEIAD_LOG_LEVEL", "warn")  # init checks it
    session = pleiad.init(log_level=level)
    exercise(session)
    hosts = sorted({session.host_name(rank) for rank in range(session.size)})
    if session.rank == 0:
        for name, text in versions():
            print(f"{name:<10} {text}")
        print(
            f"{'world':<10} {session.size} rank{'s' if session.size > 1 else ''} on {session.hosts} host"
            f"{'s' if session.hosts > 1 else ''}: {', '.join(hosts)}; engine {session.engine}"
        )
        print("\ntimings of a small job on rank 0:")
        print(session.stats(), flush=True)
    session.shutdown()


if __name__ == "__main__":
    main()

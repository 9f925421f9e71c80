"""Compares add and get from Python with the same calls from C++, alternating in one process. Prints a JSON line each.

make bench-python
PLEIAD_BUILD=build/release PYTHONPATH=build/release/python .venv/bin/python bench/python.py [--rounds 21]
"""

import argparse
import ctypes
import os
import pathlib

import numpy
from measure import compare, timed

import multiverso
import pleiad

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpp_peer(build):
    """Returns a function peer(size, fresh) that returns the turn of the C++ peer. With `fresh` each get fills a new vector."""
    library = ctypes.CDLL(str(build / "lib" / "libbench_cpp_peer.so"))
    library.cpp_peer_open.restype = ctypes.c_void_p
    library.cpp_peer_open.argtypes = [ctypes.c_int64]
    library.cpp_peer_turn.restype = ctypes.c_double
    library.cpp_peer_turn.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]

    def open_peer(size, fresh):
        handle = library.cpp_peer_open(size)
        return lambda repeats: library.cpp_peer_turn(handle, repeats, fresh)

    return open_peer


def add_and_get(table, size, fresh):
    delta = numpy.ones(size, numpy.float32)
    out = None if fresh else numpy.empty(size, numpy.float32)
    table.add(delta)
    assert table.get().sum() == size, "wrong result"

    def body():
        table.add(delta)
        table.get(out=out)

    return timed(body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="how often ours and the peer take turns")
    options = parser.parse_args()
    peer = cpp_peer(pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release")))
    multiverso.init(log_level="off", timeout=60)
    for size in (1000, 100_000, 1_000_000):
        for fresh, suffix in ((False, ""), (True, "_new")):
            # Both sides get into their own kind of memory: a vector or an array, reused or new.
            table = pleiad.session().array(size)
            ours = add_and_get(table, size, fresh)
            compare(f"python_add_get{suffix}", size, ours, peer(size, fresh), rounds=options.rounds)
        handler = multiverso.ArrayTableHandler(size)
        ours = add_and_get(handler, size, False)
        compare("multiverso_add_get", size, ours, peer(size, False), rounds=options.rounds)
    multiverso.shutdown()


main()

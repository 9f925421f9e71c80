"""Checks that all ranks still have the same parameters."""

import zlib
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from pleiad.errors import StateError
from pleiad.sessions import Session


def fingerprint(octets: "NDArray[numpy.uint8] | bytes") -> int:
    """Returns a checksum: equal for equal bytes, and almost surely different otherwise."""
    return zlib.crc32(octets)  # type: ignore[arg-type]


def compare(session: Session, names: Sequence[str], fingerprints: Sequence[int], step: int, where: str) -> None:
    """Raises a StateError on every rank, with the name of the first parameter that differs, unless the fingerprints are equal
    on all ranks. Collective."""
    low = numpy.array(fingerprints, numpy.int64)
    high = low.copy()
    session.all_reduce(low, "min")
    session.all_reduce(high, "max")
    different = numpy.flatnonzero(low != high)
    if len(different):
        raise StateError(
            f"[{where}] after step {step} the ranks have different values of {names[different[0]]} "
            f"({len(different)} of {len(names)} parameters differ): something changed them on some ranks only, such as "
            f"loading a checkpoint on rank 0 after the optimizer was wrapped; load it on all ranks"
        )

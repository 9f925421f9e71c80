"""Allocation of the arrays that Pleiad returns, and conversion of the row ids that it receives."""

from collections.abc import Iterable
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core
from pleiad.errors import InvalidArgument

MOST_SHOWN = 3


def empty(shape: tuple[int, ...], dtype: "numpy.dtype[Any]") -> NDArray[Any]:
    """Allocates an array aligned to 64 bytes, so that JAX can take it without a copy."""
    count = 1
    for side in shape:
        count *= side
    if count == 0:
        return numpy.empty(shape, dtype)
    memory: Any = _core.Memory(count * dtype.itemsize)
    flat = numpy.frombuffer(memory, dtype, count)
    return flat if len(shape) == 1 else flat.reshape(shape)


def row_ids(rows: Iterable[int], where: str) -> NDArray[numpy.int64]:
    """Converts any iterable of row numbers to contiguous int64. Does not check that the table has these rows."""
    if isinstance(rows, numpy.ndarray):
        given = rows
    elif hasattr(rows, "__array__") or hasattr(rows, "__dlpack__"):
        given = numpy.asarray(rows)
    else:
        try:
            given = numpy.asarray(list(rows))
        except TypeError:
            raise InvalidArgument(
                f"[{where}] rows: expected an iterable of row numbers; received {type(rows).__name__} {rows!r}"
            ) from None
    if given.size == 0:
        return numpy.empty(0, numpy.int64)
    if given.ndim != 1:
        raise InvalidArgument(f"[{where}] rows: expected one dimension; received shape {given.shape}")
    if given.dtype == object or given.dtype == numpy.uint64:
        big = [value for value in given.tolist() if isinstance(value, int) and not -(2**63) <= value < 2**63]
        if big:
            raise InvalidArgument(f"[{where}] rows: expected row numbers of 64 bits; received {big[0]}")
    if given.dtype.kind not in "iu":
        shown = ", ".join(repr(value) for value in given[:MOST_SHOWN].tolist())
        raise InvalidArgument(f"[{where}] rows: expected integers; received {given.dtype}: {shown} ...")
    return numpy.ascontiguousarray(given, numpy.int64)

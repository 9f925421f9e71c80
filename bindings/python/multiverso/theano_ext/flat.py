"""Keeps several arrays in one array table, so that one exchange covers all of them."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import pleiad
from multiverso import api
from multiverso.tables import ArrayTableHandler

Array = NDArray[Any]

# For each type that a table cannot have, a table type that holds all its values.
WIDER = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "int16": "int32", "uint8": "int32"}
WIDER |= {"uint16": "int32", "uint32": "int64", "bool": "int32"}
HELD = ("float32", "float64", "int32", "int64")


def table_dtype(dtypes: Sequence[Any], where: str) -> "numpy.dtype[Any]":
    """Returns the narrowest table type that holds the values of all these types."""
    names = [str(getattr(dtype, "name", dtype)) for dtype in dtypes]
    for name in names:
        if WIDER.get(name, name) not in HELD:
            raise pleiad.InvalidArgument(f"[{where}] expected parameters of real numbers; received one of {name}")
    return numpy.result_type(*(WIDER.get(name, name) for name in names))


def ranks_where(flag: bool) -> list[int]:
    """Returns the ranks on which `flag` is true. Collective."""
    flags = api._session().all_gather(numpy.array([bool(flag)], numpy.int32))
    return [int(rank) for rank in numpy.flatnonzero(flags)]


class FlatTable:
    """A table that starts with the values of `arrays` on one rank. Collective.

    That rank is `source` if given, otherwise worker 0. If the values of worker 0 are all zero and those of exactly one other
    worker are not, it is that worker, so that any single worker may provide the initial model.
    """

    def __init__(self, arrays: Sequence[Any], *, name: str, where: str, source: int | None = None) -> None:
        self.where = where
        self._shapes = [tuple(numpy.shape(array)) for array in arrays]
        dtype = table_dtype([getattr(array, "dtype", None) or numpy.asarray(array).dtype for array in arrays], where)
        ends = numpy.cumsum([0, *(int(numpy.prod(shape)) for shape in self._shapes)])
        self._mine = numpy.empty(ends[-1], dtype)
        self._last = numpy.empty(ends[-1], dtype)
        self._own_parts = self._cut(self._mine, ends)
        self.values = self._cut(self._last, ends)
        """Views of what the last sync brought, in the shapes of the arrays. The next sync overwrites them."""
        self._gather(arrays, self.values)
        session = api._session()
        source = self._source(source)
        # Adds are differences of values, so this table sums whatever rule `init` named.
        self.table = ArrayTableHandler(
            int(ends[-1]), self._last, dtype=dtype, name=name, updater="sum", init_rank=source
        )
        self.table.get(out=self._last)
        session.barrier()  # no worker starts with values that contain an add of a faster worker
        self.session = session

    def _source(self, source: int | None) -> int:
        """Returns the rank whose values the table starts with."""
        session = api._session()
        if source is not None:
            return source
        givers = ranks_where(bool(self._last.any())) if session.workers > 1 else []
        return givers[0] if len(givers) == 1 else session.worker_rank(0)

    def fits(self, arrays: Sequence[Any]) -> bool:
        """Returns whether the table can be restarted with `arrays`."""
        shapes = [tuple(numpy.shape(array)) for array in arrays]
        return self.session is api._session() and not self.table.table.closed and shapes == self._shapes

    def start_again(self, arrays: Sequence[Any]) -> None:
        """Overwrites the table with the values of `arrays` on one rank, chosen as at the start. Collective."""
        self._gather(arrays, self.values)
        self.table.table.set(self._last, self._source(None))
        self.table.get(out=self._last)
        self.session.barrier()

    def close(self) -> None:
        """Releases the table's memory. Collective."""
        self.table.close()

    def sync(self, arrays: Sequence[Any]) -> list[Array]:
        """Adds the changes of `arrays` since the last sync, and returns the table's new values."""
        self._gather(arrays, self._own_parts)
        self.table._table.exchange(self._mine, self._last)
        return self.values

    def _cut(self, flat: Array, ends: NDArray[Any]) -> list[Array]:
        return [flat[begin:end].reshape(shape) for begin, end, shape in zip(ends, ends[1:], self._shapes)]

    def _gather(self, arrays: Sequence[Any], parts: list[Array]) -> None:
        if len(arrays) != len(parts):
            raise pleiad.InvalidArgument(f"[{self.where}] expected {len(parts)} parameters; received {len(arrays)}")
        for index, (array, part) in enumerate(zip(arrays, parts)):
            if tuple(numpy.shape(array)) != part.shape:
                raise pleiad.InvalidArgument(
                    f"[{self.where}] parameter {index}: expected shape {part.shape}, as at the start; "
                    f"received {tuple(numpy.shape(array))}"
                )
            part[...] = array

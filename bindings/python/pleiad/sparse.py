"""Sparse tables, whose rows have 64-bit ids and are created by the first add; and key-value tables."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays, convert
from pleiad.futures import Future
from pleiad.tables import Array, _Table


def _ids(rows: Iterable[int], where: str) -> NDArray[numpy.int64]:
    """Converts ids to int64. Reinterprets the bits of uint64 ids, such as hashes."""
    given = numpy.asarray(rows) if hasattr(rows, "__array__") else rows
    if isinstance(given, numpy.ndarray) and given.dtype == numpy.uint64:
        given = numpy.ascontiguousarray(given).view(numpy.int64)
    return arrays.row_ids(given, where)


class _Sparse(_Table):
    _table: "_core.SparseTable | _core.KeyValueTable"

    def __init__(self, table: "_core.SparseTable | _core.KeyValueTable", strict: bool = False) -> None:
        super().__init__(table, strict)
        self._cols = table.cols

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count, self._cols)

    def _asked(self, ids: Iterable[int], out: Any, call: str) -> tuple[NDArray[numpy.int64], Any]:
        """Returns the ids of a get, and the array for their values."""
        ids = _ids(ids, f"{type(self).__name__}.{call}")
        return ids, arrays.empty(self._shape(len(ids)), self._dtype) if out is None else out

    def _started(self, ids: Iterable[int], out: Any) -> Future[Any]:
        ids, out = self._asked(ids, out, "get_async")
        return Future(self._table.get_async(ids, out), out, "get of", self)

    def __len__(self) -> int:
        """Returns the number of rows or keys on all hosts."""
        return self._table.rows()

    def __iter__(self) -> Iterator[int]:
        """Iterates over the existing ids or keys, in no particular order. With clock "sync", all workers must iterate."""
        return iter(self.items()[0].tolist())

    def __contains__(self, key: object) -> bool:
        """Returns whether a row or key exists. Reads the whole table, so prefer one `items` for many lookups."""
        return isinstance(key, int | numpy.integer) and bool((numpy.asarray(self.items()[0]) == key).any())

    def changed(self) -> tuple[Array, Array]:
        """Returns the ids and values that have changed since this rank's last call; the first call returns all. Needs
        `track_changes`. Does not report dropped rows. If a call raises, the next one reports the same changes."""
        ids, values = self._table.get_changed()
        return ids, values.reshape(self._shape(len(ids)))

    def items(self) -> tuple[Array, Array]:
        """Returns all ids and values, in no particular order. With clock "sync", all workers must call it."""
        ids, values = self._table.get_all()
        return ids, values.reshape(self._shape(len(ids)))

    def evict(self) -> int:
        """Drops the rows that `evict` or `max_age` allow, and returns their number. The table also does this by itself when
        it has no room for a new row."""
        return self._table.evict()


class SparseTable(_Sparse):
    """A table of rows with 64-bit ids. `Session.sparse` creates it. A get of a row that does not exist returns its initial
    values and does not create it.

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     words = s.sparse(2, init="constant", init_value=0.5)
    ...     words.add(numpy.ones((2, 2), numpy.float32), rows=[-1, 2**62])
    ...     print(words.get([2**62, 5]), len(words))
    [[1.5 1.5]
     [0.5 0.5]] 2
    """

    _table: _core.SparseTable

    @property
    def cols(self) -> int:
        """The number of elements of a row."""
        return self._cols

    def get(self, rows: Iterable[int], out: Any = None) -> Any:
        """Copies the given rows, in that order, into `out` or a new array, and returns it. `rows` may be empty and may contain
        duplicates. Ids of type uint64 are reinterpreted as int64."""
        ids, out = self._asked(rows, out, "get")
        self._table.get(ids, out)
        return out

    def add(
        self,
        delta: Any,
        rows: Iterable[int],
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> None:
        """Applies `delta`, one row for each of `rows`, with the table's update rule. Creates rows that do not exist. Deltas of
        duplicate rows are summed first. Raises a MemoryError if a host has no room for a new row: that host has then changed
        no row, and the table remains usable. Settings passed here apply to this add only."""
        self._table.add(_ids(rows, "SparseTable.add"), self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def set(self, values: Any, root: int = 0, rows: Any = None) -> None:
        """Replaces the contents of the table by `rows` with the values of the rank `root`, bypassing the update rule, whose
        state is reset. Other ranks may pass None. Collective."""
        ids = numpy.empty(0, numpy.int64) if rows is None else _ids(rows, "SparseTable.set")
        self._table.set_rows(ids, None if values is None else self._delta(values, "set"), root)

    def get_async(self, rows: Iterable[int], out: Any = None) -> Future[Any]:
        """Starts a get and returns a future for `out`, or for a new array."""
        return self._started(rows, out)

    def add_async(
        self,
        delta: Any,
        rows: Iterable[int],
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> Future[None]:
        """Starts an add. `delta` may be changed on return. A barrier completes the add."""
        ids = _ids(rows, "SparseTable.add_async")
        pending = self._table.add_async(ids, self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def __repr__(self) -> str:
        return f"<pleiad.SparseTable {self.name!r}: rows of {self._cols} {self._dtype}>"


class KeyValueTable(_Sparse):
    """A table with one element, or a few, for each 64-bit key. `Session.key_value` creates it.

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     counts = s.key_value(dtype="int64")
    ...     counts.add([1, 1, 5], keys=[7, 7, -3])
    ...     print(counts.get([7, -3, 8]), counts[7], len(counts))
    [2 5 0] 2 2
    """

    _table: _core.KeyValueTable

    @property
    def width(self) -> int:
        """The number of elements of a key."""
        return self._cols

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count,) if self._cols == 1 else (count, self._cols)

    def __getitem__(self, key: int) -> Any:
        return self.get([key])[0]

    def _delta(self, delta: Any, call: str) -> Any:
        """Converts Python numbers to an array of the table's type."""
        if isinstance(delta, int | float | list | tuple):
            numbers = delta if isinstance(delta, list | tuple) else [delta]
            return convert.from_numbers(numbers, self._dtype, self._where(call))
        return super()._delta(delta, call)

    def get(self, keys: Iterable[int], out: Any = None) -> Any:
        """Copies the values of `keys`, in that order, into `out` or a new array, and returns it. A key that does not exist
        has its initial values, zeros by default."""
        ids, out = self._asked(keys, out, "get")
        self._table.get(ids, out)
        return out

    def add(
        self,
        delta: Any,
        keys: Iterable[int],
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> None:
        """Applies `delta`, an array or a list, with the table's update rule. Deltas of duplicate keys are summed first."""
        ids = _ids(keys, "KeyValueTable.add")
        self._table.add(ids, self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def get_async(self, keys: Iterable[int], out: Any = None) -> Future[Any]:
        """Starts a get and returns a future for `out`, or for a new array."""
        return self._started(keys, out)

    def add_async(
        self,
        delta: Any,
        keys: Iterable[int],
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> Future[None]:
        """Starts an add. A barrier completes it."""
        ids = _ids(keys, "KeyValueTable.add_async")
        pending = self._table.add_async(ids, self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def __repr__(self) -> str:
        return f"<pleiad.KeyValueTable {self.name!r}: {self._cols} {self._dtype} a key>"

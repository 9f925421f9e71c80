"""Sparse tables: rows by 64-bit ids, made when they are first added to; and key-value tables."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays, convert
from pleiad.futures import Future
from pleiad.tables import Array, _Table


def _ids(rows: Iterable[int], where: str) -> NDArray[numpy.int64]:
    """Ids are 64 bits of anything: hashes of uint64 are taken as they are."""
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
        """The ids and where their values go, for a get."""
        ids = _ids(ids, f"{type(self).__name__}.{call}")
        return ids, arrays.empty(self._shape(len(ids)), self._dtype) if out is None else out

    def _started(self, ids: Iterable[int], out: Any) -> Future[Any]:
        ids, out = self._asked(ids, out, "get_async")
        return Future(self._table.get_async(ids, out), out, "get of", self)

    def __len__(self) -> int:
        """How many rows or keys there are, on all hosts."""
        return self._table.rows()

    def __iter__(self) -> Iterator[int]:
        """The ids or keys that are there, in no order. With clock "sync", all workers iterate."""
        return iter(self.items()[0].tolist())

    def __contains__(self, key: object) -> bool:
        """Whether a row or key is there. Reads all of them: `get` answers for many at once."""
        return isinstance(key, int | numpy.integer) and bool((numpy.asarray(self.items()[0]) == key).any())

    def changed(self) -> tuple[Array, Array]:
        """With `track_changes`: ids and values of what has changed since this rank last asked; at first all that is
        there. What went away is not told. A call that raises forgets nothing."""
        ids, values = self._table.get_changed()
        return ids, values.reshape(self._shape(len(ids)))

    def items(self) -> tuple[Array, Array]:
        """Ids and values of all that is there, in no order. With clock "sync", all workers call it."""
        ids, values = self._table.get_all()
        return ids, values.reshape(self._shape(len(ids)))

    def evict(self) -> int:
        """With `evict` or `max_age`: drops what may go, and says how many went. It happens by itself too, when there is
        no room for something new."""
        return self._table.evict()


class SparseTable(_Sparse):
    """Rows of numbers whose ids are any 64 bits. Made by `Session.sparse`. A get of a row that was never added to gives
    what its initialiser says, and makes none.

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
        return self._cols

    def get(self, rows: Iterable[int], out: Any = None) -> Any:
        """Copies the rows, in their order, into `out` or a new array, and returns that. A row asked for twice comes
        twice; no rows are allowed. Ids of uint64 are taken bit by bit."""
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
        """Hands `delta`, a row for each of `rows`, to the table's rule; rows that are not there are made. Deltas of a
        row named twice are summed first. A MemoryError where there is no room for a new row: then no row of its host
        was changed, and the table goes on with those that it has."""
        self._table.add(_ids(rows, "SparseTable.add"), self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def set(self, values: Any, root: int = 0, rows: Any = None) -> None:
        """Collective over all ranks: the table then has `rows` with the values of the rank `root`, and no others, past
        the rule, whose state starts anew. The other ranks may give None."""
        ids = numpy.empty(0, numpy.int64) if rows is None else _ids(rows, "SparseTable.set")
        self._table.set_rows(ids, None if values is None else self._delta(values, "set"), root)

    def get_async(self, rows: Iterable[int], out: Any = None) -> Future[Any]:
        """Starts a get; its future's result is `out`, or a new array."""
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
        """Starts an add. `delta` may be changed again on return: it was applied, or copied. A barrier completes it."""
        ids = _ids(rows, "SparseTable.add_async")
        pending = self._table.add_async(ids, self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def __repr__(self) -> str:
        return f"<pleiad.SparseTable {self.name!r}: rows of {self._cols} {self._dtype}>"


class KeyValueTable(_Sparse):
    """One number, or a few, for each 64-bit key. Made by `Session.key_value`.

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
        return self._cols

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count,) if self._cols == 1 else (count, self._cols)

    def __getitem__(self, key: int) -> Any:
        return self.get([key])[0]

    def _delta(self, delta: Any, call: str) -> Any:
        """Plain numbers become an array of the table's type."""
        if isinstance(delta, int | float | list | tuple):
            numbers = delta if isinstance(delta, list | tuple) else [delta]
            return convert.from_numbers(numbers, self._dtype, self._where(call))
        return super()._delta(delta, call)

    def get(self, keys: Iterable[int], out: Any = None) -> Any:
        """The values of `keys`, in their order, in `out` or a new array. A key that was never added to has what its
        initialiser says: zeros, unless told otherwise."""
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
        """Hands `delta`, an array or a list, to the table's rule. Deltas of a key named twice are summed first."""
        ids = _ids(keys, "KeyValueTable.add")
        self._table.add(ids, self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def get_async(self, keys: Iterable[int], out: Any = None) -> Future[Any]:
        """Starts a get; its future's result is `out`, or a new array."""
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

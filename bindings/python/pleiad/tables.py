"""Tables: arrays that all workers share.

Contiguous arrays of the table's element type are read and written without copies: NumPy, PyTorch, JAX, and any other array
with DLPack or the buffer protocol. Input arrays of other types are converted; `pleiad.convert` describes how. Any thread may
call an asynchronous table. The synchronous tables of a session must be called in the same order on every worker.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays, convert
from pleiad.errors import InvalidArgument
from pleiad.futures import Future

Array = NDArray[Any]
Self = TypeVar("Self", bound="_Table")


class _Table:
    """The common part of all tables."""

    _table: "_core.ArrayTable | _core.MatrixTable | _core.SparseTable | _core.KeyValueTable"

    def __init__(
        self,
        table: "_core.ArrayTable | _core.MatrixTable | _core.SparseTable | _core.KeyValueTable",
        strict: bool = False,
    ) -> None:
        self._table = table
        self._dtype: numpy.dtype[Any] = numpy.dtype(table.dtype)
        self._strict = strict

    def _delta(self, delta: Any, call: str) -> Any:
        """Converts `delta` to the table's element type."""
        if type(delta) is numpy.ndarray and delta.dtype == self._dtype:
            return delta
        return convert.for_table(delta, self._dtype, self._where(call), self._strict)

    def _where(self, call: str) -> str:
        return f'[{type(self).__name__}.{call}] table "{self.name}"'

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table.name

    @property
    def dtype(self) -> "numpy.dtype[Any]":
        """The element type of the table, as a NumPy dtype."""
        return self._dtype

    @property
    def id(self) -> int:
        """The number of the table in its session, counted from 0."""
        return self._table.id

    @property
    def stats(self) -> dict[str, int | float]:
        """This rank's counters of the table: adds, gets, bytes, seconds, and seconds spent waiting for other ranks."""
        return self._table.stats()

    def shard(self, server: int) -> tuple[int, int]:
        """Returns the range (begin, end) of elements, or rows of a matrix, that a server owns."""
        return self._table.shard(server)

    def tick(self) -> None:
        """Records that this worker has finished a step, for clock="ssp"."""
        self._table.tick()

    @property
    def rounds(self) -> int:
        """The number of complete rounds, for apply="round". With backup workers it tells when to end training."""
        return self._table.rounds()

    def set(self, values: Any, root: int = 0) -> None:
        """Overwrites the whole table with `values` of the rank `root`, bypassing the update rule, whose state stays. Other
        ranks may pass None. Collective over all ranks."""
        self._table.set(None if values is None else self._delta(values, "set"), root)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._table.closed

    def close(self) -> None:
        """Releases the table's memory. Later calls raise a StateError. Does nothing if the table is closed already. Collective
        over all ranks. Without close(), the memory is released once every rank has dropped all its handles of the table, at
        the next creation of a table or barrier of all ranks.

        >>> import pleiad
        >>> with pleiad.init() as s, s.array(1000) as table:
        ...     print(table.get().sum())
        0.0
        """
        self._table.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:  # after an error the other ranks may never call close()
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to this process and cannot be pickled: no other process can use its session")


class _DenseTable(_Table):
    """A table that can become a NumPy array, because all of its values exist."""

    def __array__(self, dtype: Any = None, copy: "bool | None" = None) -> Array:
        """Copies the table into a NumPy array, for `numpy.asarray(table)`. With clock "sync" it counts as a get. Raises an
        InvalidArgument if copy=False, because other processes may hold the values."""
        if copy is False:
            raise InvalidArgument(
                f"{self._where('__array__')} cannot become an array without a copy; pass copy=None or True"
            )
        values: Array = self.get()  # type: ignore[attr-defined]
        return values if dtype is None else values.astype(dtype, copy=False)


class ArrayTable(_DenseTable):
    """A one-dimensional table. `Session.array` creates it.

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     weights = s.array(4, init=numpy.arange(4, dtype=numpy.float32), name="weights")
    ...     weights.add(numpy.ones(4, numpy.float32))
    ...     print(weights.get())
    [1. 2. 3. 4.]
    """

    _table: _core.ArrayTable

    def __init__(self, table: _core.ArrayTable, strict: bool = False) -> None:
        super().__init__(table, strict)
        self._shape = (table.size,)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._shape[0]

    @property
    def shape(self) -> tuple[int]:
        """The shape of the table, (size,)."""
        return self._shape

    def __len__(self) -> int:
        return self._shape[0]

    def get(self, out: Any = None) -> Any:
        """Copies the table into `out` or a new NumPy array, and returns it. Sees every add that this worker has completed.
        `out` is any writable array with `size` elements of `dtype`."""
        if out is None:
            out = arrays.empty(self._shape, self._dtype)
        self._table.get(out)
        return out

    def add(
        self,
        delta: Any,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> None:
        """Applies `delta` with the table's update rule; the default rule "sum" adds it. `delta` may be changed on return.
        Settings passed here apply to this add only."""
        self._table.add(self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def add_get(
        self,
        delta: Any,
        out: Any = None,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> Any:
        """Does `add(delta)` and then `get(out)`, on an asynchronous table in one pass over memory. `out` may be `delta`."""
        if out is None:
            out = arrays.empty(self._shape, self._dtype)
        self._table.add_get(self._delta(delta, "add_get"), out, learning_rate, momentum, rho, lambda_)
        return out

    def exchange(self, values: Any, last: Any) -> None:
        """Synchronizes a worker's own copy with the table: adds `values - last`, then copies the table into both. `last` is the
        result of the previous exchange, or of a get before the first one.

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     table = s.array(2)
        ...     mine, last = table.get(), table.get()
        ...     mine += 1                      # training
        ...     table.exchange(mine, last)     # receives the changes of other workers
        ...     print(table.get())
        [1. 1.]
        """
        self._table.exchange(values, last)

    def add_parts(
        self,
        parts: Sequence[tuple[int, Any]],
        out: Any = None,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
        kept: Sequence[tuple[int, int]] = (),
    ) -> Any:
        """Adds a delta that is stored in several arrays. Each part has its offset in the table. Parts must be in ascending
        order and must not overlap; all other elements receive zero. With `out`, copies the table into it, as `add_get` does.
        `kept` lists ranges (begin, end) that the rule must skip: their values and rule state do not change. `kept` needs
        apply="each".

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     table = s.array(6)
        ...     table.add_parts([(0, numpy.ones(2, numpy.float32)), (4, numpy.ones(2, numpy.float32))])
        ...     print(table.get())
        [1. 1. 0. 0. 1. 1.]
        """
        parts = [(at, self._delta(delta, "add_parts")) for at, delta in parts]
        self._table.add_parts(parts, out, learning_rate, momentum, rho, lambda_, kept)
        return out

    def step(
        self,
        parts: Sequence[tuple[int, Any]],
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
        kept: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Runs the rule once on the sum of all ranks' deltas, each rank updating its range of the elements. Complete on all ranks
        on return. Collective over all ranks; for asynchronous tables on one host. `parts` and `kept` are those of
        `add_parts`. `kept` and the settings must be the same on all ranks. If only `step` changes a table, read it by `map`."""
        parts = [(at, self._delta(delta, "step")) for at, delta in parts]
        self._table.step(parts, learning_rate, momentum, rho, lambda_, kept)

    def map(self) -> Array:
        """Returns the table's memory, which all workers of one host share, so that no get is needed. A single worker may also
        write to it. With several workers it is read-only by contract: adds change it at any time, element by element, and
        `step` changes it collectively. Raises a StateError with several hosts, with apply="round", and with several workers
        and a clock other than "async"."""
        return self._table.map()  # type: ignore[no-any-return]

    def get_async(self, out: Any = None) -> Future[Any]:
        """Starts a get and returns a future for `out`, or for a new array."""
        if out is None:
            out = arrays.empty(self._shape, self._dtype)
        return Future(self._table.get_async(out), out, "get of", self)

    def add_async(
        self,
        delta: Any,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> Future[None]:
        """Starts an add. `delta` may be changed on return. A barrier completes the add."""
        pending = self._table.add_async(self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def __repr__(self) -> str:
        return f"<pleiad.ArrayTable {self.name!r}: {self.size} {self._dtype}>"


class MatrixTable(_DenseTable):
    """A two-dimensional table that is read and written by rows. `Session.matrix` creates it.

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     words = s.matrix(1000, 3)
    ...     words.add(numpy.ones((2, 3), numpy.float32), rows=[7, 999])
    ...     print(words.get(rows=[999, 0]))
    [[1. 1. 1.]
     [0. 0. 0.]]
    """

    _table: _core.MatrixTable

    def __init__(self, table: _core.MatrixTable, strict: bool = False) -> None:
        super().__init__(table, strict)
        self._shape = (table.rows, table.cols)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._shape[0]

    @property
    def cols(self) -> int:
        """The number of elements of a row."""
        return self._shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table, (rows, cols)."""
        return self._shape

    def __len__(self) -> int:
        return self._shape[0]

    def _part(self, rows: Iterable[int] | None, out: Any, where: str) -> tuple[Any, Any]:
        ids = None if rows is None else arrays.row_ids(rows, where)
        if out is None:
            out = arrays.empty(self._shape if ids is None else (len(ids), self._shape[1]), self._dtype)
        return ids, out

    def get(self, rows: Iterable[int] | None = None, out: Any = None) -> Any:
        """Copies all rows, or the given ones in that order, into `out` or a new array, and returns it. `rows` may be empty and
        may contain duplicates."""
        ids, out = self._part(rows, out, "MatrixTable.get")
        self._table.get(ids, out)
        return out

    def add(
        self,
        delta: Any,
        rows: Iterable[int] | None = None,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> None:
        """Applies `delta`, one row for each of `rows`, with the table's update rule. Deltas of duplicate rows are summed
        first. Settings passed here apply to this add only."""
        ids = None if rows is None else arrays.row_ids(rows, "MatrixTable.add")
        self._table.add(ids, self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def get_async(self, rows: Iterable[int] | None = None, out: Any = None) -> Future[Any]:
        """Starts a get and returns a future for `out`, or for a new array."""
        ids, out = self._part(rows, out, "MatrixTable.get_async")
        return Future(self._table.get_async(ids, out), out, "get of", self)

    def add_async(
        self,
        delta: Any,
        rows: Iterable[int] | None = None,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        rho: float | None = None,
        lambda_: float | None = None,
    ) -> Future[None]:
        """Starts an add. `delta` may be changed on return. A barrier completes the add."""
        ids = None if rows is None else arrays.row_ids(rows, "MatrixTable.add_async")
        pending = self._table.add_async(ids, self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def changed(self) -> tuple[Array, Array]:
        """Returns the numbers and values of the rows that have changed since this rank's last call; the first call returns all
        rows. Needs `track_changes`. If a call raises, the next one reports the same changes.

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     words = s.matrix(1000, 2, track_changes=True)
        ...     _ = words.changed()
        ...     words.add(numpy.ones((1, 2), numpy.float32), rows=[7])
        ...     print(*words.changed())
        [7] [[1. 1.]]
        """
        ids, values = self._table.get_changed()
        return ids, values.reshape(len(ids), self.cols)

    def __repr__(self) -> str:
        return f"<pleiad.MatrixTable {self.name!r}: {self.rows} x {self.cols} {self._dtype}>"

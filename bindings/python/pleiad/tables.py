"""Tables: numbers shared by all workers.

Arrays of the table's element type go in and out without copies: NumPy, PyTorch, JAX, anything with DLPack or the buffer
protocol, contiguous. Arrays of other types are converted on their way in; `pleiad.convert` says which. Any thread may
call an asynchronous table. The synchronous tables of a session are called in one order, the same on every worker.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy
from numpy.typing import NDArray

from pleiad import _core, arrays, convert
from pleiad.futures import Future

Array = NDArray[Any]
Self = TypeVar("Self", bound="_Table")


class _Table:
    """What all tables have in common."""

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
        """`delta` in the table's element type."""
        if type(delta) is numpy.ndarray and delta.dtype == self._dtype:
            return delta
        return convert.for_table(delta, self._dtype, self._where(call), self._strict)

    def _where(self, call: str) -> str:
        return f'[{type(self).__name__}.{call}] table "{self.name}"'

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def dtype(self) -> "numpy.dtype[Any]":
        return self._dtype

    @property
    def id(self) -> int:
        """The number of the table in its session: 0 for the first."""
        return self._table.id

    @property
    def stats(self) -> dict[str, int | float]:
        """What the table has done for this rank: adds, gets, bytes, seconds, and seconds of waiting for others."""
        return self._table.stats()

    def shard(self, server: int) -> tuple[int, int]:
        """Which elements (of a matrix: rows) a server owns, as begin and end."""
        return self._table.shard(server)

    def tick(self) -> None:
        """clock="ssp": this worker has finished a step."""
        self._table.tick()

    @property
    def rounds(self) -> int:
        """apply="round": how many rounds are complete. With backup workers this says when to end."""
        return self._table.rounds()

    def set(self, values: Any, root: int = 0) -> None:
        """Collective over all ranks: every number of the table becomes that of `values` at the rank `root`, past the
        rule, whose state stays. The other ranks may give None."""
        self._table.set(None if values is None else self._delta(values, "set"), root)

    @property
    def closed(self) -> bool:
        return self._table.closed

    def close(self) -> None:
        """Collective over all ranks: releases the table's memory now. Later calls raise a StateError. Without close(), the
        memory is released once every rank has dropped all its handles of the table, when all ranks next create a table
        or come to a barrier. Does nothing if the table was closed.

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
        if problem is None:  # after an error the other ranks may not come to close()
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to this process and cannot be pickled: no other process can use its session")


class ArrayTable(_Table):
    """A row of numbers. Made by `Session.array`.

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
        return self._shape[0]

    def get(self, out: Any = None) -> Any:
        """Copies the table into `out`, or into a new NumPy array, and returns that. Sees every add that this worker has
        waited for. `out` is any writable array with `size` elements of `dtype`."""
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
        """Hands `delta` to the table's rule: with `sum`, the default, it is added. `delta` may be changed again on
        return. What is given of the rule's settings counts for this add alone."""
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
        """`add(delta)`, then `get(out)`: on an asynchronous table in one pass over the memory. `out` may be `delta`."""
        if out is None:
            out = arrays.empty(self._shape, self._dtype)
        self._table.add_get(self._delta(delta, "add_get"), out, learning_rate, momentum, rho, lambda_)
        return out

    def exchange(self, values: Any, last: Any) -> None:
        """Brings a worker's own copy and the table together: adds `values - last`, then fills both with the table.
        `last` is what the exchange before left there; at first, a get.

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     table = s.array(2)
        ...     mine, last = table.get(), table.get()
        ...     mine += 1                      # training
        ...     table.exchange(mine, last)     # the others' training comes in
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
        """An add of a delta that lies in several arrays, each with its first place in the table, in ascending order and
        apart from each other; the rest gets zero. With `out`, then a get into it, as `add_get` does. kept: ranges of
        elements (begin, end) that the rule does not see: their values and its state for them stay as they are. That is
        for apply="each".

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
        """Collective over all ranks, on one host, for asynchronous tables: the rule runs once on the sum of all ranks'
        deltas, each rank on its share of the numbers; all are done on return. `parts` and `kept` are those of `add_parts`;
        `kept` and the settings are the same on all ranks. Whoever changes a table by `step` alone reads it by `map`."""
        parts = [(at, self._delta(delta, "step")) for at, delta in parts]
        self._table.step(parts, learning_rate, momentum, rho, lambda_, kept)

    def map(self) -> Array:
        """The table's own memory, which all workers of one host see: no get is needed. Who is alone may change it. With
        more workers it is read; it changes by adds at any time, number by number, or by `step`. With several hosts,
        with apply="round", and with more workers and a clock, a StateError."""
        return self._table.map()  # type: ignore[no-any-return]

    def get_async(self, out: Any = None) -> Future[Any]:
        """Starts a get; its future's result is `out`, or a new array."""
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
        """Starts an add. `delta` may be changed again on return: it was applied, or copied. A barrier completes it."""
        pending = self._table.add_async(self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def __repr__(self) -> str:
        return f"<pleiad.ArrayTable {self.name!r}: {self.size} {self._dtype}>"


class MatrixTable(_Table):
    """Rows of numbers. Made by `Session.matrix`.

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
        return self._shape[0]

    @property
    def cols(self) -> int:
        return self._shape[1]

    def _part(self, rows: Iterable[int] | None, out: Any, where: str) -> tuple[Any, Any]:
        ids = None if rows is None else arrays.row_ids(rows, where)
        if out is None:
            out = arrays.empty(self._shape if ids is None else (len(ids), self._shape[1]), self._dtype)
        return ids, out

    def get(self, rows: Iterable[int] | None = None, out: Any = None) -> Any:
        """Copies all rows, or those of `rows` in their order, into `out` or a new array, and returns that. A row asked
        for twice comes twice; no rows are allowed."""
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
        """Hands `delta`, a row for each of `rows`, to the table's rule. Deltas of a row named twice are summed first.
        What is given of the rule's settings counts for this add alone."""
        ids = None if rows is None else arrays.row_ids(rows, "MatrixTable.add")
        self._table.add(ids, self._delta(delta, "add"), learning_rate, momentum, rho, lambda_)

    def get_async(self, rows: Iterable[int] | None = None, out: Any = None) -> Future[Any]:
        """Starts a get; its future's result is `out`, or a new array."""
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
        """Starts an add. `delta` may be changed again on return: it was applied, or copied. A barrier completes it."""
        ids = None if rows is None else arrays.row_ids(rows, "MatrixTable.add_async")
        pending = self._table.add_async(ids, self._delta(delta, "add_async"), learning_rate, momentum, rho, lambda_)
        return Future(pending, None, "add to", self)

    def changed(self) -> tuple[Array, Array]:
        """With `track_changes`: the numbers and values of the rows that have changed since this rank last asked; at first
        all rows. A call that raises forgets nothing.

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

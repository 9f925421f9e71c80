"""The creation of tables, which is part of the session."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy

from pleiad import _core, convert
from pleiad.choices import Apply, TableClock
from pleiad.errors import InvalidArgument
from pleiad.options import Updater, dtype_name, text_of, updater_options
from pleiad.sparse import KeyValueTable, SparseTable
from pleiad.tables import ArrayTable, MatrixTable

TableType = TypeVar("TableType", ArrayTable, MatrixTable, SparseTable, KeyValueTable)
T = TypeVar("T")
Wish = tuple[Any, dict[str, str]]
"""The initial values of a table, and its options as text."""


class TableCreation:
    """The methods of a session that create tables, and the tables that exist."""

    def __init__(self, core: _core.Session) -> None:
        self._core = core
        # Weak references, so that a table's memory is released when its last handle is dropped.
        self._tables: list[weakref.ref[ArrayTable | MatrixTable | SparseTable | KeyValueTable]] = []

    def _in_order(self) -> _core.Session:
        """Waits for collectives in the background, and returns the core session."""
        raise NotImplementedError

    def array(
        self,
        size: int,
        init: Any = None,
        *,
        dtype: Any = None,
        name: str = "",
        clock: TableClock = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: Apply = "each",
        ordered: bool = False,
        check_finite: bool = False,
        init_rank: int = 0,
        reserve_only: bool = False,
        strict: bool = False,
        updater: "str | Mapping[str, Any] | Updater" = "sum",
    ) -> ArrayTable:
        """Creates a table of `size` elements. Collective: all ranks create the same tables in the same order. An error in
        the arguments of one rank raises on all ranks.

        Args:
            size: number of elements.
            init: initial values, zeros by default. Those of the rank `init_rank` are used; those of other ranks are only
                checked.
            dtype: element type. By default that of `init`, or float32. Ranks that pass no `init` must pass the dtype if it
                is not float32.
            name: name of the table in messages, statistics and snapshots.
            clock: "async"; "sync", where the k-th get of every worker sees the adds 1 to k of all workers; or "ssp", where a
                get waits for workers that are more than `staleness` calls of `tick` behind.
            staleness: see `clock`.
            backup: fraction of the workers for which a round does not wait.
            apply: "each" runs the update rule once per add, "round" once per round on the sum of all workers' adds.
            ordered: sum a round in rank order, so that the result is bit-identical in every run.
            check_finite: refuse NaN and infinity.
            init_rank: see `init`.
            reserve_only: reserve address space at creation without committing memory.
            strict: accept only arrays of exactly this type; by default others are converted as in `pleiad.convert`.
            updater: name of an update rule, a dict with "rule" and settings, or `pleiad.Updater`.
        """
        given = locals()
        return self._create_array(size, lambda: self._wish(init, dtype, updater, given), strict)

    def matrix(
        self,
        rows: int,
        cols: int,
        init: Any = None,
        *,
        dtype: Any = None,
        name: str = "",
        clock: TableClock = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: Apply = "each",
        ordered: bool = False,
        check_finite: bool = False,
        init_rank: int = 0,
        reserve_only: bool = False,
        track_changes: bool = False,
        strict: bool = False,
        updater: "str | Mapping[str, Any] | Updater" = "sum",
    ) -> MatrixTable:
        """Creates a table of `rows` times `cols` elements. Collective. `track_changes` enables `changed`; the other arguments
        are those of `array`."""
        given = locals()

        def wish() -> tuple[Any, dict[str, str]]:
            values, options = self._wish(init, dtype, updater, given)
            return values, options | {"track_changes": text_of(track_changes)}

        return self._create_matrix(rows, cols, wish, strict)

    def sparse(
        self,
        cols: int,
        init: str = "zeros",
        *,
        init_value: float = 0.0,
        init_spread: float = 0.01,
        seed: int = 0,
        max_rows: int = 0,
        evict: bool = False,
        max_age: float = 0.0,
        track_changes: bool = False,
        dtype: Any = None,
        name: str = "",
        clock: TableClock = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: Apply = "each",
        ordered: bool = False,
        check_finite: bool = False,
        strict: bool = False,
        updater: "str | Mapping[str, Any] | Updater" = "sum",
    ) -> SparseTable:
        """Creates a table of rows of `cols` elements. A row's id is any 64-bit integer, and the first add to a row creates
        it. Collective. Arguments that are not listed here are those of `array`.

        Args:
            cols: number of elements of a row.
            init: initial values of a row: "zeros", "constant" (`init_value`), "uniform" (`init_value` - `init_spread` to
                `init_value` + `init_spread`) or "gaussian" (mean `init_value`, standard deviation `init_spread`). They
                depend on `seed` and the row's id alone, so they are the same on every rank.
            init_value: see `init`.
            init_spread: see `init`.
            seed: see `init`.
            max_rows: maximum number of rows; 0 is limited by memory only.
            evict: at `max_rows`, drop the rows whose last add is oldest instead of raising an error.
            max_age: seconds since its last add after which a row may be dropped; 0 disables this.
            track_changes: enable `changed`.
        """
        given = locals()
        count, options = self._or_refuse(lambda: (_count(cols, "cols"), self._rows_wish(given)))
        return self._keep(SparseTable(self._in_order().create_sparse(count, options), strict))

    def key_value(
        self,
        width: int = 1,
        init: str = "zeros",
        *,
        init_value: float = 0.0,
        init_spread: float = 0.01,
        seed: int = 0,
        max_rows: int = 0,
        evict: bool = False,
        max_age: float = 0.0,
        track_changes: bool = False,
        dtype: Any = None,
        name: str = "",
        clock: TableClock = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: Apply = "each",
        ordered: bool = False,
        check_finite: bool = False,
        strict: bool = False,
        updater: "str | Mapping[str, Any] | Updater" = "sum",
    ) -> KeyValueTable:
        """Creates a table with `width` elements for each 64-bit key. Collective. The arguments are those of `sparse`."""
        given = locals()
        count, options = self._or_refuse(lambda: (_count(width, "width"), self._rows_wish(given)))
        return self._keep(KeyValueTable(self._in_order().create_key_value(count, options), strict))

    def _rows_wish(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Returns the options of a sparse table as text."""
        _, options = self._wish(
            None, given["dtype"], given["updater"], {**given, "init_rank": 0, "reserve_only": False}
        )
        names = ("init", "init_value", "init_spread", "seed", "max_rows", "evict", "max_age", "track_changes")
        return options | {option: text_of(given[option]) for option in names}

    def _or_refuse(self, read: Callable[[], T]) -> T:
        """Returns the result of `read`, which converts the arguments of a collective creation. If it raises on this rank, the
        creation raises on all ranks, which would otherwise wait for this one."""
        try:
            return read()
        except InvalidArgument as problem:
            self._core.refuse_table(str(problem))
            raise

    def _create_array(self, size: int, wish: Callable[[], "Wish"], strict: bool = False) -> ArrayTable:
        """Creates the table. `wish` returns the initial values and the options as text."""
        count, (values, options) = self._or_refuse(lambda: (_count(size, "size"), wish()))
        return self._keep(ArrayTable(self._in_order().create_array(count, options, values), strict))

    def _create_matrix(self, rows: int, cols: int, wish: Callable[[], "Wish"], strict: bool = False) -> MatrixTable:
        shape, (values, options) = self._or_refuse(lambda: ((_count(rows, "rows"), _count(cols, "cols")), wish()))
        return self._keep(MatrixTable(self._in_order().create_matrix(*shape, options, values), strict))

    def _wish(self, init: Any, dtype: Any, updater: Any, given: Mapping[str, Any]) -> "Wish":
        """Returns the initial values in the table's type, and the options as text."""
        plain = (
            "name",
            "clock",
            "staleness",
            "backup",
            "apply",
            "ordered",
            "check_finite",
            "init_rank",
            "reserve_only",
        )
        options = {option: text_of(given[option]) for option in plain}
        options["dtype"] = dtype_name(dtype, init)
        options |= updater_options(updater)
        if init is not None:
            init = convert.for_table(init, numpy.dtype(options["dtype"]), "[initial values] the table", given["strict"])
        return init, options

    def _keep(self, table: TableType) -> TableType:
        self._tables = [kept for kept in self._tables if kept() is not None]
        self._tables.append(weakref.ref(table))
        return table


def _count(value: Any, name: str) -> int:
    """Returns an integer of 64 bits from any integer type."""
    try:
        number = value.__index__()
    except AttributeError:
        raise InvalidArgument(f"{name}: expected an integer; received {type(value).__name__} {value!r}") from None
    if not -(2**63) <= number < 2**63:
        raise InvalidArgument(f"{name}: expected an integer of 64 bits; received {number}")
    return int(number)

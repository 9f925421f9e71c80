"""The session: a process's membership in a job."""

import importlib
import os
import sys
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy

from pleiad import _core, arrays, convert, exits
from pleiad.errors import InvalidArgument, StateError
from pleiad.options import Updater, dtype_name, session_options, text_of, updater_options
from pleiad.sparse import KeyValueTable, SparseTable
from pleiad.tables import ArrayTable, MatrixTable

TableType = TypeVar("TableType", ArrayTable, MatrixTable, SparseTable, KeyValueTable)
T = TypeVar("T")
Wish = tuple[Any, dict[str, str]]
"""The initial values of a table, and its options as text."""

_current: "Session | None" = None


def init(
    *,
    engine: str = "auto",
    role: str = "both",
    timeout: float = 1800,
    warn_after: float = 60,
    log_level: str = "info",
    stats: bool = False,
    **more: Any,
) -> "Session":
    """Joins the job that the launcher started (pleiad launch, mpirun, srun), or starts a job of one process if there is no
    launcher. A process has at most one session at a time; `session()` returns it. Environment variables such as
    PLEIAD_TIMEOUT override the arguments.

    Args:
        engine: "auto", "solo" or "mpi".
        role: "both", "worker", "server" or "none".
        timeout: seconds after which a wait raises a TimeoutError.
        warn_after: seconds after which a wait logs what every rank is doing.
        log_level: "debug", "info", "warn", "error" or "off".
        stats: print counters and timings at shutdown.
        more: further options, which docs/parameters.md lists.

    >>> import pleiad
    >>> with pleiad.init(timeout=60) as s:
    ...     print(s.rank, s.size)
    0 1
    """
    global _current
    if _current is not None:
        raise StateError("a session is already open and stays open; call its shutdown() before another init()")
    given = {"engine": engine, "role": role, "timeout": timeout, "warn_after": warn_after}
    given |= {"log_level": log_level, "stats": stats, **more}
    _current = Session(_core.Session.start(session_options(given)))
    exits.watch(leave_open_session)
    if _current.size > 1 and any(name in sys.modules for name in ("accelerate", "lightning", "pytorch_lightning")):
        importlib.import_module("pleiad.torch")  # its guard stops these libraries from training one model per rank
    return _current


def session() -> "Session":
    """Returns the session of this process. Raises a StateError if there is none."""
    if _current is None:
        raise StateError("there is no session; call pleiad.init() (or multiverso.init()) first")
    return _current


def leave_open_session(clean: bool) -> None:
    """Ends the session at process exit. `clean` is False if an exception ended the process."""
    if _current is None:
        return
    if clean:
        _current.shutdown()
    else:
        _current.leave()


class Session:
    """A process's membership in a job. `pleiad.init` creates it; tables and collectives are its methods.

    As a context manager it shuts down at the end of the block. If an exception leaves the block, the other ranks receive a
    TransportError that names this rank, instead of waiting for it.
    """

    def __init__(self, core: _core.Session) -> None:
        self._core = core
        # Weak references, so that a table's memory is released when its last handle is dropped.
        self._tables: list[weakref.ref[ArrayTable | MatrixTable | SparseTable | KeyValueTable]] = []
        # Modules that run collectives in the background register a function here that waits for them. It is called before
        # every collective of this process, so that all ranks have one order.
        self.before_collective: dict[Callable[[], None], None] = {}
        # Called once when the session ends, in order of registration.
        self.at_end: dict[Callable[[], None], None] = {}

    # Ranks, roles and hosts.

    @property
    def rank(self) -> int:
        """The rank of this process: 0 to size - 1."""
        return self._core.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._core.size

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._core.workers

    @property
    def servers(self) -> int:
        """The number of servers."""
        return self._core.servers

    @property
    def worker_id(self) -> int:
        """The number of this worker, or -1 if this rank is not a worker."""
        return self._core.worker_id

    @property
    def server_id(self) -> int:
        """The number of this server, or -1 if this rank is not a server."""
        return self._core.server_id

    @property
    def is_master(self) -> bool:
        """Whether this rank is worker 0."""
        return self._core.worker_id == 0

    def worker_rank(self, worker: int) -> int:
        """Returns the rank of a worker."""
        return self._core.worker_rank(worker)

    def server_rank(self, server: int) -> int:
        """Returns the rank of a server."""
        return self._core.server_rank(server)

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return self._core.hosts

    def host_of(self, rank: int) -> int:
        """Returns the number of the host of a rank."""
        return self._core.host_of(rank)

    def host_name(self, rank: int) -> str:
        """Returns the name of the host of a rank."""
        return self._core.host_name(rank)

    @property
    def engine(self) -> str:
        """The engine that connects the ranks: "solo" or "mpi"."""
        return self._core.engine

    @property
    def options(self) -> dict[str, str]:
        """The options of the session, including those from the environment."""
        return self._core.options

    def alive(self, rank: int) -> bool:
        """Returns whether a rank is alive. Detects dead ranks of this host only; ranks of other hosts count as alive."""
        return self._core.alive(rank)

    # Tables.

    def array(
        self,
        size: int,
        init: Any = None,
        *,
        dtype: Any = None,
        name: str = "",
        clock: str = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: str = "each",
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
        clock: str = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: str = "each",
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
        clock: str = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: str = "each",
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
        clock: str = "async",
        staleness: int = 0,
        backup: float = 0,
        apply: str = "each",
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

    # Collectives. All ranks call them in the same order, from one thread at a time.

    def _in_order(self) -> _core.Session:
        """Waits for collectives in the background, and returns the core session."""
        for call in self.before_collective:
            call()
        return self._core

    def barrier(self) -> None:
        """Completes this worker's asynchronous adds, then waits for all ranks. Collective."""
        self._in_order().barrier()

    def all_reduce(self, x: Any, op: str = "sum", tag: int = 0) -> Any:
        """Reduces the `x` of all ranks in place by "sum", "min", "max" or "mean" and returns it. The result is bit-identical
        on all ranks. Raises an OrderError if the ranks pass different tags. Collective.

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     print(s.all_reduce(numpy.array([1.0, 2.0])))
        [1. 2.]
        """
        self._in_order().all_reduce(x, op, tag)
        return x

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Overwrites `x` with that of the rank `root` and returns it. Collective."""
        self._in_order().broadcast(x, root)
        return x

    def all_gather(self, x: Any, out: Any = None) -> Any:
        """Gathers the `x` of all ranks in rank order. Returns `out`, or a new array of shape (size, *x.shape). Collective."""
        if out is None:
            out = arrays.empty((self.size, *x.shape), numpy.dtype(dtype_name(None, x)))
        self._in_order().all_gather(x, out)
        return out

    def reduce_scatter(self, x: Any, op: str = "sum", out: Any = None) -> Any:
        """Reduces the `x` of all ranks and returns this rank's block of the result. The first dimension of `x` must be
        divisible by `size`. Collective."""
        if out is None:
            if not x.shape or x.shape[0] % self.size:
                raise InvalidArgument(
                    f"[reduce_scatter] x: expected a first dimension divisible by the {self.size} ranks; received shape "
                    f"{tuple(x.shape)}"
                )
            out = arrays.empty((x.shape[0] // self.size, *x.shape[1:]), numpy.dtype(dtype_name(None, x)))
        self._in_order().reduce_scatter(x, out, op)
        return out

    def send(self, to: int, x: Any, tag: int = 0) -> None:
        """Sends `x` to the rank `to`. `x` may be changed on return. Messages with the same sender and tag arrive in order."""
        self._core.send(to, _tag(tag), x)

    def receive(self, frm: int, out: Any, tag: int = 0) -> Any:
        """Receives a message from the rank `frm` into `out`, which must have exactly its size. Returns `out`."""
        self._core.receive(frm, _tag(tag), out)
        return out

    # Snapshots and statistics.

    def save(self, folder: "str | os.PathLike[str]", step: int = 0, notes: dict[str, str] | None = None) -> None:
        """Writes all tables and the state of their rules into `folder`, completely or not at all. Collective."""
        self._in_order().save(os.fspath(folder), step, notes or {})

    def load(self, folder: "str | os.PathLike[str]", values_only: bool = False) -> dict[str, Any]:
        """Fills the tables with the saved ones of the same names. Returns the step and notes of `save`. With `values_only`
        the state of the rules is not loaded. Collective."""
        return self._in_order().load(os.fspath(folder), values_only)

    def stats(self) -> str:
        """Returns counters and timings as a text table."""
        return self._core.stats()

    def report(self) -> str:
        """Returns what every rank of this host is currently doing, one line per rank."""
        return self._core.report()

    def metrics(self) -> dict[str, Any]:
        """Returns the ranks, and this rank's counters of tables and collectives, as a dict."""
        world = {name: getattr(self, name) for name in ("rank", "size", "workers", "servers", "hosts", "engine")}
        found = [table for kept in self._tables if (table := kept()) is not None and not table.closed]
        tables = {f"{table.id}: {table.name}": table.stats for table in found}
        return {**world, "tables": tables, "collectives": self._core.collective_stats()}

    # End of the session.

    def shutdown(self) -> None:
        """Completes this worker's adds and waits until all ranks have called it. Synchronous tables of other ranks no longer
        wait for this one. Tables are gone afterwards; another init() may follow. Collective."""
        try:
            self._in_order().shutdown()
        finally:
            self._forget()

    def leave(self, why: str = "") -> str:
        """Ends the session without the other ranks, which treat this rank as dead: each of their waits for it raises, with
        the message `why` if given. If several ranks leave, the first message wins; returns that message."""
        first = self._core.leave(why)
        self._forget()
        return first

    def _forget(self) -> None:
        global _current
        self._tables.clear()
        at_end, self.at_end = self.at_end, {}
        for call in at_end:
            call()
        if _current is self:
            _current = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _current is not self:
            return  # the block itself ended the session
        if problem is None or (isinstance(problem, SystemExit) and not problem.code):
            self.shutdown()
        else:
            self.leave()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session belongs to its process and cannot be pickled")

    def __repr__(self) -> str:
        if _current is not self:
            return "<pleiad.Session: closed>"
        return f"<pleiad.Session: rank {self.rank} of {self.size}, engine {self.engine}>"


def _count(value: Any, name: str) -> int:
    """Returns an integer of 64 bits from any integer type."""
    try:
        number = value.__index__()
    except AttributeError:
        raise InvalidArgument(f"{name}: expected an integer; received {type(value).__name__} {value!r}") from None
    if not -(2**63) <= number < 2**63:
        raise InvalidArgument(f"{name}: expected an integer of 64 bits; received {number}")
    return int(number)


def _tag(tag: int) -> int:
    if not 0 <= tag < 2**32:
        raise InvalidArgument(f"tag: expected 0 to {2**32 - 1}; received {tag}")
    return tag

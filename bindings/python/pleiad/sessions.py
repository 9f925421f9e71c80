"""A process's handle on its world."""

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
"""A table's first values, and its options as text."""

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
    """Joins the world that the launcher made (mpirun, srun), or makes a world of one where there is no launcher. The
    environment wins over the arguments: PLEIAD_TIMEOUT and so on. A process has one session at a time; `session()`
    finds it.

    engine: auto, solo or mpi. role: both, worker, server or none. timeout: seconds a wait may last. warn_after: seconds
    after which a wait reports what every rank is doing. log_level: debug, info, warn, error or off. stats: print
    counters and timings at shutdown. More options are on the page of parameters.

    >>> import pleiad
    >>> with pleiad.init(timeout=60) as s:
    ...     print(s.rank, s.size)
    0 1
    """
    global _current
    if _current is not None:
        raise StateError("a session is open already, and goes on as it is; call its shutdown() before another init")
    given = {"engine": engine, "role": role, "timeout": timeout, "warn_after": warn_after}
    given |= {"log_level": log_level, "stats": stats, **more}
    _current = Session(_core.Session.start(session_options(given)))
    exits.watch(leave_open_session)
    if _current.size > 1 and any(name in sys.modules for name in ("accelerate", "lightning", "pytorch_lightning")):
        importlib.import_module("pleiad.torch")  # which refuses to let these train one model per rank
    return _current


def session() -> "Session":
    """The session of this process; a StateError where there is none."""
    if _current is None:
        raise StateError("there is no session; call pleiad.init() (or multiverso.init()) first")
    return _current


def leave_open_session(clean: bool) -> None:
    """For the end of the process: `clean` where no exception ended it."""
    if _current is None:
        return
    if clean:
        _current.shutdown()
    else:
        _current.leave()


class Session:
    """A process's handle on its world. Made by `pleiad.init`; everything hangs from it.

    As a context manager it shuts down at the end. Where the block is left by an exception, the other ranks must not wait
    for this one: they get a TransportError that names it.
    """

    def __init__(self, core: _core.Session) -> None:
        self._core = core
        # Weak: a table whose handles are all dropped gives its memory back.
        self._tables: list[weakref.ref[ArrayTable | MatrixTable | SparseTable | KeyValueTable]] = []
        # For modules that run collectives in the background: called before every collective of this process, to wait for
        # them, so that all ranks have one order.
        self.before_collective: dict[Callable[[], None], None] = {}
        # Called once when the session ends, in this order.
        self.at_end: dict[Callable[[], None], None] = {}

    # The world.

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def size(self) -> int:
        return self._core.size

    @property
    def workers(self) -> int:
        return self._core.workers

    @property
    def servers(self) -> int:
        return self._core.servers

    @property
    def worker_id(self) -> int:
        """-1 for a rank that is no worker."""
        return self._core.worker_id

    @property
    def server_id(self) -> int:
        """-1 for a rank that is no server."""
        return self._core.server_id

    @property
    def is_master(self) -> bool:
        """True for worker 0."""
        return self._core.worker_id == 0

    def worker_rank(self, worker: int) -> int:
        return self._core.worker_rank(worker)

    def server_rank(self, server: int) -> int:
        return self._core.server_rank(server)

    @property
    def hosts(self) -> int:
        return self._core.hosts

    def host_of(self, rank: int) -> int:
        return self._core.host_of(rank)

    def host_name(self, rank: int) -> str:
        return self._core.host_name(rank)

    @property
    def engine(self) -> str:
        """solo, or mpi."""
        return self._core.engine

    @property
    def options(self) -> dict[str, str]:
        """The options that the session runs with, the environment's included."""
        return self._core.options

    def alive(self, rank: int) -> bool:
        """False for a rank that died; ranks of other hosts count as alive."""
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
        """A table of `size` numbers. Collective: all ranks create the same tables in the same order.

        init: the first values; those of the rank `init_rank` count, those of the others are checked and not used. A wrong
        `init` on one rank raises on all of them. dtype: float32 unless `init` has another one; so ranks that give no
        `init` give the dtype. strict: accept arrays of exactly this type; without it, other types are converted as
        `pleiad.convert` describes. clock: async, or sync, where get number k
        of every worker sees the adds 1 to k of all; or ssp, where a get waits for workers that are more than `staleness`
        calls of `tick` behind. backup: the fraction of the workers that a round does not wait for. apply: each add runs the rule, or each round once on the sum of all
        workers' adds. ordered: sum a round in rank order. check_finite: refuse NaN and infinity. reserve_only: commit
        no memory at creation. updater: a rule's name, a dict with "rule" and settings, or `pleiad.Updater`.
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
        """A table of `rows` times `cols` numbers; the arguments are those of `array`. track_changes: keep what
        `changed` needs."""
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
        """A table of rows of `cols` numbers, whose ids are any 64 bits and which are made when they are first added to.
        Collective. Arguments that are not named here are those of `array`.

        init: what a row starts as: zeros, constant (`init_value`), uniform (`init_value` -+ `init_spread`) or gaussian
        (mean and standard deviation), the same on every rank: a function of `seed` and the row's id. max_rows: how many
        there may be; 0: as many as the memory holds. evict: at max_rows, drop those whose last add is longest ago, in
        place of an error. max_age: seconds after its last add at which a row may be dropped; 0: never. track_changes:
        keep what `changed` needs.
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
        """A table of `width` numbers for each 64-bit key; the arguments are those of `sparse`."""
        given = locals()
        count, options = self._or_refuse(lambda: (_count(width, "width"), self._rows_wish(given)))
        return self._keep(KeyValueTable(self._in_order().create_key_value(count, options), strict))

    def _rows_wish(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The options of a sparse table as text."""
        _, options = self._wish(
            None, given["dtype"], given["updater"], {**given, "init_rank": 0, "reserve_only": False}
        )
        names = ("init", "init_value", "init_spread", "seed", "max_rows", "evict", "max_age", "track_changes")
        return options | {option: text_of(given[option]) for option in names}

    def _or_refuse(self, read: Callable[[], T]) -> T:
        """What `read` makes of the arguments of a table's creation. The creation is collective: what is wrong with them on
        this rank is raised on all ranks, which would wait for this one otherwise."""
        try:
            return read()
        except InvalidArgument as problem:
            self._core.refuse_table(str(problem))
            raise

    def _create_array(self, size: int, wish: Callable[[], "Wish"], strict: bool = False) -> ArrayTable:
        """`wish` returns the first values and the options as text."""
        count, (values, options) = self._or_refuse(lambda: (_count(size, "size"), wish()))
        return self._keep(ArrayTable(self._in_order().create_array(count, options, values), strict))

    def _create_matrix(self, rows: int, cols: int, wish: Callable[[], "Wish"], strict: bool = False) -> MatrixTable:
        shape, (values, options) = self._or_refuse(lambda: ((_count(rows, "rows"), _count(cols, "cols")), wish()))
        return self._keep(MatrixTable(self._in_order().create_matrix(*shape, options, values), strict))

    def _wish(self, init: Any, dtype: Any, updater: Any, given: Mapping[str, Any]) -> "Wish":
        """The first values in the table's type, and the options as text."""
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

    # Collectives: called by all ranks in the same order, by one thread at a time.

    def _in_order(self) -> _core.Session:
        """The core, once collectives in the background are done."""
        for call in self.before_collective:
            call()
        return self._core

    def barrier(self) -> None:
        """Completes this worker's asynchronous adds, then waits for all ranks."""
        self._in_order().barrier()

    def all_reduce(self, x: Any, op: str = "sum", tag: int = 0) -> Any:
        """Reduces all ranks' `x` in place (sum, min, max or mean) and returns it. All ranks get the same bits. Ranks that meet
        with different tags get an OrderError.

        >>> import numpy, pleiad
        >>> with pleiad.init() as s:
        ...     print(s.all_reduce(numpy.array([1.0, 2.0])))
        [1. 2.]
        """
        self._in_order().all_reduce(x, op, tag)
        return x

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Overwrites `x` with that of the rank `root`, and returns it."""
        self._in_order().broadcast(x, root)
        return x

    def all_gather(self, x: Any, out: Any = None) -> Any:
        """All ranks' `x`, by rank: in `out`, or in a new array of shape (size, *x.shape)."""
        if out is None:
            out = arrays.empty((self.size, *x.shape), numpy.dtype(dtype_name(None, x)))
        self._in_order().all_gather(x, out)
        return out

    def reduce_scatter(self, x: Any, op: str = "sum", out: Any = None) -> Any:
        """Reduces all ranks' `x`, whose first side is a multiple of `size`, and returns this rank's block of it."""
        if out is None:
            if not x.shape or x.shape[0] % self.size:
                raise InvalidArgument(f"[reduce_scatter] {self.size} ranks cannot share shape {tuple(x.shape)} evenly")
            out = arrays.empty((x.shape[0] // self.size, *x.shape[1:]), numpy.dtype(dtype_name(None, x)))
        self._in_order().reduce_scatter(x, out, op)
        return out

    def send(self, to: int, x: Any, tag: int = 0) -> None:
        """Returns when `x` may be changed again. Messages of one sender and tag arrive in order."""
        self._core.send(to, _tag(tag), x)

    def receive(self, frm: int, out: Any, tag: int = 0) -> Any:
        """Fills `out`, which has exactly the message's size, and returns it."""
        self._core.receive(frm, _tag(tag), out)
        return out

    # What happened.

    def save(self, folder: "str | os.PathLike[str]", step: int = 0, notes: dict[str, str] | None = None) -> None:
        """Collective: writes all tables, with what their rules keep, into `folder`, whole or not at all."""
        self._in_order().save(os.fspath(folder), step, notes or {})

    def load(self, folder: "str | os.PathLike[str]", values_only: bool = False) -> dict[str, Any]:
        """Collective: fills the tables with those of the same names that `save` wrote; returns its step and notes."""
        return self._in_order().load(os.fspath(folder), values_only)

    def stats(self) -> str:
        """Counters and timings, as a small table of text."""
        return self._core.stats()

    def report(self) -> str:
        """What every rank of this host is doing now, a line each."""
        return self._core.report()

    def metrics(self) -> dict[str, Any]:
        """The world, and what tables and collectives have done for this rank, for a program to read."""
        world = {name: getattr(self, name) for name in ("rank", "size", "workers", "servers", "hosts", "engine")}
        found = [table for kept in self._tables if (table := kept()) is not None and not table.closed]
        tables = {f"{table.id}: {table.name}": table.stats for table in found}
        return {**world, "tables": tables, "collectives": self._core.collective_stats()}

    # The end.

    def shutdown(self) -> None:
        """Collective: completes this worker's adds, lets the others go on without it, and waits until all have come
        here. Tables are gone afterwards; another init may follow."""
        try:
            self._in_order().shutdown()
        finally:
            self._forget()

    def leave(self, why: str = "") -> str:
        """Ends the session without the others, who take it for a death: each of their waits for this rank raises, with the
        words `why` where they are given. Of several ranks' words the first are the world's; returns those."""
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
            return  # the block has ended it
        if problem is None or (isinstance(problem, SystemExit) and not problem.code):
            self.shutdown()
        else:
            self.leave()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session belongs to its process and cannot be pickled")

    def __repr__(self) -> str:
        if _current is not self:
            return "<pleiad.Session: over>"
        return f"<pleiad.Session: rank {self.rank} of {self.size}, engine {self.engine}>"


def _count(value: Any, name: str) -> int:
    """A number of elements: anything that is an integer, and fits 64 bits."""
    try:
        number = value.__index__()
    except AttributeError:
        raise InvalidArgument(f"{name}: expected an integer; received {type(value).__name__} {value!r}") from None
    if not -(2**63) <= number < 2**63:
        raise InvalidArgument(f"{name}: {number} is beyond 64 bits")
    return int(number)


def _tag(tag: int) -> int:
    if not 0 <= tag < 2**32:
        raise InvalidArgument(f"tag: expected 0 to {2**32 - 1}; received {tag}")
    return tag

"""The session: a process's membership in a job."""

import importlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

import numpy

from pleiad import _core, arrays, exits, logs
from pleiad.choices import Engine, LogLevel
from pleiad.errors import InvalidArgument, StateError
from pleiad.options import dtype_name, session_options
from pleiad.table_creation import TableCreation

_current: "Session | None" = None


def init(
    *,
    engine: Engine = "auto",
    role: str = "both",
    timeout: float = 1800,
    warn_after: float = 60,
    log_level: LogLevel = "info",
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
        log_level: "debug", "info", "warn", "error" or "off". If the program has configured Python's `logging`, the lines go to
            the logger "pleiad"; otherwise they go to stderr.
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
    logs.follow()
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


class Session(TableCreation):
    """A process's membership in a job. `pleiad.init` creates it; tables and collectives are its methods.

    As a context manager it shuts down at the end of the block. If an exception leaves the block, the other ranks receive a
    TransportError that names this rank, instead of waiting for it.
    """

    def __init__(self, core: _core.Session) -> None:
        super().__init__(core)
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


def _tag(tag: int) -> int:
    if not 0 <= tag < 2**32:
        raise InvalidArgument(f"tag: expected 0 to {2**32 - 1}; received {tag}")
    return tag

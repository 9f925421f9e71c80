"""Initialization, shutdown and worker numbers. This module holds the one session that Multiverso's API has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pleiad
from pleiad import _core
from pleiad.options import Updater, text_of, updater_options


@dataclass
class _Open:
    session: pleiad.Session
    flags: _core.Flags
    updater: dict[str, str]


_open: _Open | None = None


def init(
    sync: bool = False,
    *,
    updater: str | Mapping[str, Any] | Updater | None = None,
    timeout: float | None = None,
    flags: Iterable[str] = (),
    **session_options: Any,
) -> None:
    """Initializes Multiverso. Without a launcher the process is the only worker; under a launcher such as mpirun it is one of
    many.

    Args:
        sync: use a synchronous server: every worker must call add and get in the same order and equally often, and all gets
            return exactly the same results.
        updater: how an add changes a table, by default "sum": a rule of Multiverso (sgd, momentum_sgd, adagrad, dcasgd,
            dcasgda) or of Pleiad, or a dict with "rule" and its settings.
        timeout: seconds after which a wait raises.
        flags: command-line flags of Multiverso, such as ["-updater_type=sgd", "-updater.momentum=0.9"].
        more: further options, as for `pleiad.init`.

    >>> import multiverso as mv
    >>> mv.init(updater={"rule": "momentum_sgd", "momentum": 0.9}, timeout=60)
    >>> mv.workers_num(), mv.worker_id(), mv.is_master_worker()
    (1, 0, True)
    >>> mv.shutdown()
    """
    global _open
    words = [str(flag) for flag in ([flags] if isinstance(flags, str) else flags)]
    parsed = _core.Flags.parse([*words, *(["-sync=true"] if sync else [])])
    options: dict[str, Any] = {**parsed.session_options(), **session_options}
    if timeout is not None:
        options["timeout"] = timeout
    rule = {} if updater is None else _multiverso_updater(updater)
    _core.check_updater({**parsed.table_options("float32"), **rule})
    _open = _Open(pleiad.init(**options), parsed, rule)
    if parsed.idle and options.get("log_level", "info") in ("debug", "info", "warn"):
        import logging

        logging.getLogger("multiverso").warning("flags without effect here: %s", ", ".join(parsed.idle))


def shutdown() -> None:
    """Ends Multiverso when all workers have called it. Another init may follow."""
    global _open
    session = _session()
    _open = None
    session.shutdown()


def barrier() -> None:
    """Waits until all workers have called it. It completes this worker's asynchronous adds, so a get after a barrier sees all
    adds that any worker made before it."""
    _session().barrier()


def workers_num() -> int:
    """Returns the number of workers."""
    return _session().workers


def worker_id() -> int:
    """Returns the number of this worker, counted from 0."""
    return _session().worker_id


def server_id() -> int:
    """Returns the number of this server, counted from 0."""
    return _session().server_id


def is_master_worker() -> bool:
    """Returns True on worker 0. Use it for work that only one process should do, such as validation or output."""
    return _session().is_master


def _use() -> _Open:
    if _open is None:
        raise pleiad.StateError("multiverso is not started; call multiverso.init() first")
    return _open


def _session() -> pleiad.Session:
    """Returns the session that `init` opened."""
    return _use().session


def _table_options(dtype: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Returns a table's options as text. Those given for the table override the flags and updater of `init`."""
    opened = _use()
    options = opened.flags.table_options(dtype)
    if dtype.startswith("float"):  # tables of integers always use the rule "sum"
        options |= opened.updater
    for name, value in given.items():
        if name == "updater":
            options = {key: text for key, text in options.items() if not key.startswith("updater")}
            options |= _multiverso_updater(value)
        else:
            options[name] = text_of(value)
    return options


MULTIVERSO_RULES = ("default", "sgd", "momentum_sgd", "adagrad", "dcasgd", "dcasgda")


def _multiverso_updater(updater: str | Mapping[str, Any] | Updater) -> dict[str, str]:
    """Like Pleiad's, but Multiverso's names mean Multiverso's rules: its sgd expects a delta that is already scaled."""
    options = updater_options(updater)
    if options["updater"] in MULTIVERSO_RULES:
        options["updater"] = "multiverso/" + options["updater"]
    return options

"""Start, end and numbers of the world. The one session that Multiverso's API has lives here."""

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
    """Starts Multiverso. Alone, the process is a world of one worker; under mpirun it is one of many.

    sync: True for a synchronous server: every worker calls add and get in the same order and as often, and all gets
    return exactly the same results. updater: how an add changes a table, by default the sum; Multiverso's names (sgd,
    momentum_sgd, adagrad, dcasgd, dcasgda), Pleiad's, or a dict with "rule" and its settings. timeout: seconds a wait
    may last. flags: Multiverso's, as on its command line: ["-updater_type=sgd", "-updater.momentum=0.9"]. More options
    are those of `pleiad.init`.

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
    """Ends Multiverso: waits until all workers have come here. Another init may follow."""
    global _open
    session = _session()
    _open = None
    session.shutdown()


def barrier() -> None:
    """Waits until all workers have come here. This worker's asynchronous adds are complete then, so that after a
    barrier a get sees all adds of all workers before it."""
    _session().barrier()


def workers_num() -> int:
    """How many workers there are."""
    return _session().workers


def worker_id() -> int:
    """The number of this worker, from 0."""
    return _session().worker_id


def server_id() -> int:
    """The number of this server, from 0."""
    return _session().server_id


def is_master_worker() -> bool:
    """True for worker 0: for what only one process should do, such as validation or output."""
    return _session().is_master


def _use() -> _Open:
    if _open is None:
        raise pleiad.StateError("multiverso is not started; call multiverso.init() first")
    return _open


def _session() -> pleiad.Session:
    """The session of `init`."""
    return _use().session


def _table_options(dtype: str, given: Mapping[str, Any]) -> dict[str, str]:
    """A table's options as text: init's flags and updater, and over them what was given for this table."""
    opened = _use()
    options = opened.flags.table_options(dtype)
    if dtype.startswith("float"):  # tables of integers always sum
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
    """As Pleiad's, but Multiverso's names mean Multiverso's rules: its sgd takes a delta that is scaled already."""
    options = updater_options(updater)
    if options["updater"] in MULTIVERSO_RULES:
        options["updater"] = "multiverso/" + options["updater"]
    return options

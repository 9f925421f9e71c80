"""The engine's log lines in Python's `logging`."""

import atexit
import logging
import threading

from pleiad import _core

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

_stop = threading.Event()
_thread: "threading.Thread | None" = None


def follow() -> None:
    """Sends the engine's log lines to the logger "pleiad" from now on, if the program has configured logging: if this logger
    or the root logger has a handler. Otherwise they go to stderr. `pleiad.init` calls it."""
    global _thread
    if _thread is not None or not logging.getLogger("pleiad").hasHandlers():
        return
    _core.keep_logs(True)
    _thread = threading.Thread(target=_pass_on, name="pleiad logs", daemon=True)
    _thread.start()
    atexit.register(_finish)


def _pass_on() -> None:
    while not _stop.is_set():
        _take(0.5)


def _take(seconds: float) -> bool:
    """Logs a line if there is one within `seconds`."""
    line = _core.next_log(seconds)
    if line is None:
        return False
    level, text = line
    logging.getLogger("pleiad").log(LEVELS[level], "%s", text)
    return True


def _finish() -> None:
    """Ends the thread before the interpreter ends, and logs what is left. Later lines go to stderr."""
    _stop.set()
    if _thread is not None:
        _thread.join()
    _core.keep_logs(False)
    while _take(0):
        pass

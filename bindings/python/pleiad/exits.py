"""Ends a process whose session is still open.

An uncaught exception ends the job: the process prints its traceback with the rank and leaves the session, so that the other
ranks receive an error that names this rank instead of waiting for it. An uncaught SystemExit with a nonzero status, which
sys.exit() and exit() raise, does the same. When a script ends normally, its session is shut down.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from pleiad import _core

_leave: Callable[[bool], None] | None = None
_process = 0


def watch(leave: Callable[[bool], None]) -> None:
    """Registers `leave(clean)` to be called when this process ends."""
    global _leave, _process
    _process = os.getpid()
    if _leave is None:
        _leave = leave
        previous = sys.excepthook

        def hook(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
            previous(kind, problem, trace)
            # In an interactive session an exception does not end the process.
            if not (hasattr(sys, "ps1") or sys.flags.interactive):
                _end(clean=False)

        sys.excepthook = hook
        _core.watch_exit_status()
        # Registered last, so it runs before the handlers of modules imported earlier: that of mpi4py finalizes MPI.
        atexit.register(_end, clean=True)


def _end(clean: bool) -> None:
    if _leave is None or os.getpid() != _process or threading.current_thread() is not threading.main_thread():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        _leave(clean and not _core.ends_with_failure())
    except Exception as problem:  # the process ends in any case, so the error can only be reported
        print(f"pleiad: at process exit: {type(problem).__name__}: {problem}", file=sys.stderr)

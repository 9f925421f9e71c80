"""The end of a process whose session is still open.

An uncaught exception ends the job: its traceback is printed with the rank, and the session is left, so that the other
ranks get an error that names this one and none waits for it. So does an uncaught SystemExit with a status other than 0,
which sys.exit() and exit() raise. A script that just ends has its session shut down.
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
    """From now on the end of this process calls `leave(clean)`."""
    global _leave, _process
    _process = os.getpid()
    if _leave is None:
        _leave = leave
        previous = sys.excepthook

        def hook(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
            previous(kind, problem, trace)
            # At a prompt an exception ends nothing.
            if not (hasattr(sys, "ps1") or sys.flags.interactive):
                _end(clean=False)

        sys.excepthook = hook
        _core.watch_exit_status()
        # Before the handlers of modules that were imported earlier: mpi4py's ends MPI.
        atexit.register(_end, clean=True)


def _end(clean: bool) -> None:
    if _leave is None or os.getpid() != _process or threading.current_thread() is not threading.main_thread():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        _leave(clean and not _core.ends_with_failure())
    except Exception as problem:  # the process ends anyway; what is left to do is to say it
        print(f"pleiad: at the end of the process: {type(problem).__name__}: {problem}", file=sys.stderr)

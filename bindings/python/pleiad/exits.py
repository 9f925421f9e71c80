"""The end of a process whose session is still open.

An uncaught exception ends the job: its traceback is printed with the rank, and the session is left, so that the other
ranks get an error that names this one and none waits for it. So does sys.exit() with a status other than 0. A script that
just ends has its session shut down.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

_leave: Callable[[bool], None] | None = None
_process = 0
_failed = False  #: the script has called sys.exit() with a status other than 0


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
        leave_by = sys.exit

        def exit_with(status: Any = None, /) -> NoReturn:
            global _failed
            _failed = status not in (None, 0)  # handlers of atexit do not see the status
            leave_by(status)

        setattr(sys, "exit", exit_with)  # noqa: B010  mypy refuses the assignment
        # Before the handlers of modules that were imported earlier: mpi4py's ends MPI.
        atexit.register(_end, clean=True)


def _end(clean: bool) -> None:
    if _leave is None or os.getpid() != _process or threading.current_thread() is not threading.main_thread():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        _leave(clean and not _failed)
    except Exception as problem:  # the process ends anyway; what is left to do is to say it
        print(f"pleiad: at the end of the process: {type(problem).__name__}: {problem}", file=sys.stderr)

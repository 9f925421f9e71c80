"""Ctrl-C during a run of training."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from pleiad.errors import Interrupted


class CtrlC:
    """Counts Ctrl-C in the main thread during `watching`: the first one sets `pressed`, the second one raises immediately."""

    def __init__(self) -> None:
        self.pressed = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self.pressed = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = signal.getsignal(signal.SIGINT)

        def mark(number: int, frame: Any) -> None:
            if self.pressed:
                raise KeyboardInterrupt
            self.pressed = True

        if old in (signal.SIG_IGN, None):
            yield
            return
        signal.signal(signal.SIGINT, mark)
        try:
            yield
        except Interrupted as problem:
            if self.pressed:
                raise KeyboardInterrupt from problem
            raise
        finally:
            signal.signal(signal.SIGINT, old)

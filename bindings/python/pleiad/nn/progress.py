"""Progress output: a bar on a terminal, lines in a log."""

import shutil
import sys
import time
from typing import TextIO

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.history import Record

BLOCKS = " ▏▎▍▌▋▊▉█"
MODES = ("auto", "bar", "lines", "off")


class Progress(Callback):
    """Shows the progress of a run. mode: "bar", "lines", "off", or "auto", which shows a bar if stderr is a terminal."""

    def __init__(self, mode: str = "auto", stream: "TextIO | None" = None) -> None:
        if mode not in MODES:
            raise InvalidArgument(f"progress: expected {', '.join(MODES)}, True or False; received {mode!r}")
        self.stream = sys.stderr if stream is None else stream
        self.bar = mode == "bar" or (mode == "auto" and self.stream.isatty())
        self.unicode = (getattr(self.stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        self.epochs = self.steps = 0
        self.started = 0.0
        self.width = 0  # characters currently shown in the line

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        self.epochs, self.steps = epochs, steps_per_epoch
        self.started = time.perf_counter()

    def on_progress(self, epoch: int, done: int, metrics: dict[str, float]) -> None:
        if not self.bar:
            return
        seconds = time.perf_counter() - self.started
        rate = done / seconds if seconds > 0 else 0.0
        left = (self.steps - done) / rate if rate > 0 else 0.0
        words = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        tail = f" {done}/{self.steps} [{clock(seconds)}<{clock(left)}, {rate:,.0f} steps/s]  {words}"
        head = f"epoch {epoch}/{self.epochs} {100 * done // self.steps:3d}%"
        room = shutil.get_terminal_size().columns - 1
        side = min(max(room - len(head) - len(tail) - 2, 5), 30)
        self._write(f"{head}|{self._drawn(done / self.steps, side)}|{tail}"[:room])

    def on_record(self, record: Record) -> None:
        self._clear()
        print(record.text(), file=self.stream, flush=True)

    def on_epoch(self, epoch: int) -> None:
        self.started = time.perf_counter()

    def on_end(self) -> None:
        self._clear()

    def _drawn(self, share: float, side: int) -> str:
        if not self.unicode:
            return "#" * int(share * side) + " " * (side - int(share * side))
        eighths = int(share * side * 8)
        whole, part = divmod(eighths, 8)
        return (BLOCKS[8] * whole + (BLOCKS[part] if whole < side else "")).ljust(side)

    def _write(self, line: str) -> None:
        print("\r" + line.ljust(self.width), end="", file=self.stream, flush=True)
        self.width = len(line)

    def _clear(self) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", file=self.stream, flush=True)
            self.width = 0


def clock(seconds: float) -> str:
    """Formats seconds as 02:05 or 1:02:05.

    >>> clock(125), clock(3725)
    ('02:05', '1:02:05')
    """
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"

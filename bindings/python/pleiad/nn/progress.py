"""Progress output: a bar on a terminal or in a notebook, lines in a log."""

import os
import shutil
import sys
import time
from typing import Any, TextIO

from pleiad.errors import InvalidArgument
from pleiad.nn.callbacks import Callback
from pleiad.nn.choices import ProgressMode
from pleiad.nn.history import Record

BLOCKS = " ▏▎▍▌▋▊▉█"
MODES = ("auto", "bar", "lines", "off")


class Progress(Callback):
    """Shows the progress of a run. mode: "bar", "lines", "off", or "auto", which shows a bar if stderr is a terminal, also the
    one of `pleiad launch` whose ranks write into pipes, or if the program runs in a notebook. The bar is that of tqdm if tqdm
    is installed."""

    def __init__(self, mode: ProgressMode = "auto", stream: "TextIO | None" = None) -> None:
        if mode not in MODES:
            raise InvalidArgument(f"progress: expected {', '.join(MODES)}, True or False; received {mode!r}")
        self.notebook = stream is None and "ipykernel" in sys.modules
        self.stream = sys.stderr if stream is None else stream
        # The launcher sets this variable to the width of the terminal that its pipes end in.
        self.columns = None if stream is not None else _number(os.environ.get("PLEIAD_TERMINAL"))
        piped = self.columns is not None
        if self.columns is None and _has_no_width(self.stream):
            self.columns = 80
        terminal = self.stream.isatty() or self.notebook or piped
        self.bar = mode == "bar" or (mode == "auto" and terminal)
        self._shown: _TqdmBar | _PlainBar | None = None
        self.epochs = self.steps = 0

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        self.epochs, self.steps = epochs, steps_per_epoch

    def on_progress(self, epoch: int, done: int, metrics: dict[str, float]) -> None:
        if not self.bar:
            return
        if self._shown is None:
            kind = _PlainBar if _tqdm_class(False) is None else _TqdmBar
            self._shown = kind(self, f"epoch {epoch}/{self.epochs}")
        self._shown.show(done, metrics)

    def on_record(self, record: Record) -> None:
        self._clear()
        print(record.text(), file=self.stream, flush=True)

    def on_epoch(self, epoch: int) -> None:
        self._clear()

    def on_end(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._shown is not None:
            self._shown.close()
            self._shown = None


def _number(text: "str | None") -> "int | None":
    return int(text) if text is not None and text.isdigit() else None


def _has_no_width(stream: TextIO) -> bool:
    """Returns whether a terminal does not tell its width."""
    try:
        return os.get_terminal_size(stream.fileno()).columns == 0
    except (OSError, ValueError):  # no terminal, or no file
        return False


def _tqdm_class(notebook: bool) -> Any:
    """Returns tqdm's class for a terminal or a notebook, or None if tqdm is not installed."""
    try:
        if notebook:
            from tqdm.auto import tqdm as of_notebooks  # type: ignore[import-untyped]

            return of_notebooks
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return None
    return tqdm


class _TqdmBar:
    """A bar of tqdm, for the time until the next record."""

    def __init__(self, progress: Progress, title: str) -> None:
        words: dict[str, Any] = {"desc": title, "total": progress.steps or None, "unit": " steps", "leave": False}
        if not progress.notebook:
            words |= {"file": progress.stream, "dynamic_ncols": progress.columns is None}
            if progress.columns is not None:
                words |= {"ncols": progress.columns, "nrows": 20}
        self.bar = _tqdm_class(progress.notebook)(mininterval=0, **words)

    def show(self, done: int, metrics: dict[str, float]) -> None:
        self.bar.set_postfix({name: f"{value:.4g}" for name, value in metrics.items()}, refresh=False)
        self.bar.n = done
        self.bar.refresh()

    def close(self) -> None:
        self.bar.close()


class _PlainBar:
    """A bar for programs without tqdm."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.progress, self.title, self.stream = progress, title, progress.stream
        self.unicode = (getattr(self.stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        self.started = time.perf_counter()
        self.first: int | None = None  # the steps done when the bar appeared
        self.width = 0  # characters currently shown in the line

    def show(self, done: int, metrics: dict[str, float]) -> None:
        steps = self.progress.steps
        self.first = done if self.first is None else self.first
        seconds = time.perf_counter() - self.started
        rate = (done - self.first) / seconds if seconds > 0 else 0.0
        left = clock((steps - done) / rate) if rate > 0 and steps else "?"
        words = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        tail = f" {done}/{steps or '?'} [{clock(seconds)}<{left}, {rate:,.0f} steps/s]  {words}"
        head = f"{self.title} {100 * done // steps:3d}%" if steps else self.title
        room = (self.progress.columns or shutil.get_terminal_size().columns) - 1
        side = min(max(room - len(head) - len(tail) - 2, 5), 30)
        drawn = self._drawn(done / steps, side) if steps else " " * side
        line = f"{head}|{drawn}|{tail}"[:room]
        print("\r" + line.ljust(self.width), end="", file=self.stream, flush=True)
        self.width = len(line)

    def close(self) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", file=self.stream, flush=True)

    def _drawn(self, share: float, side: int) -> str:
        if not self.unicode:
            return "#" * int(share * side) + " " * (side - int(share * side))
        eighths = int(share * side * 8)
        whole, part = divmod(eighths, 8)
        return (BLOCKS[8] * whole + (BLOCKS[part] if whole < side else "")).ljust(side)


def clock(seconds: float) -> str:
    """Formats seconds as 02:05 or 1:02:05.

    >>> clock(125), clock(3725)
    ('02:05', '1:02:05')
    """
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"

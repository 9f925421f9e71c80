"""Snapshots of a session's tables: the last few of a run, written in the background."""

import os
from typing import Any

from pleiad import _core
from pleiad.sessions import Session


class Snapshots:
    """A folder of snapshots. Its calls are collective.

    >>> import numpy, pleiad, tempfile
    >>> with pleiad.init() as session, tempfile.TemporaryDirectory() as folder:
    ...     weights = session.array(3, name="weights")
    ...     snapshots = pleiad.Snapshots(session, folder, every_steps=2, background=False)
    ...     last = snapshots.load_last()
    ...     for step in range(last["step"] + 1 if last else 1, 5):
    ...         weights.add(numpy.ones(3, numpy.float32))
    ...         saved = snapshots.step(step)
    ...     snapshots.wait()
    ...     print(snapshots.load_last()["step"])
    4
    """

    def __init__(
        self,
        session: Session,
        folder: "str | os.PathLike[str]",
        *,
        every_steps: int = 0,
        every_seconds: float = 0,
        keep: int = 2,
        background: bool = True,
    ) -> None:
        self._core = _core.Snapshots(session._core, os.fspath(folder), every_steps, every_seconds, keep, background)

    def load_last(self, values_only: bool = False) -> dict[str, Any] | None:
        """Loads the newest snapshot that is whole; None where there is none."""
        return self._core.load_last(values_only)

    def step(self, step: int, notes: dict[str, str] | None = None) -> bool:
        """Call this after every step: saves when a save is due, and returns whether it did. A save that becomes due while
        the one before is still being written is postponed to the first step after that."""
        return self._core.step(step, notes or {})

    def save(self, step: int, notes: dict[str, str] | None = None) -> None:
        """Saves now."""
        self._core.save(step, notes or {})

    def wait(self) -> None:
        """Call this at the end: saves the state of the last `step` unless it was saved, and waits until everything is on
        disk. Raises, on all ranks, where a save failed."""
        self._core.wait()

"""Snapshots of a session's tables, written in the background."""

import os
from typing import Any

from pleiad import _core
from pleiad.representation import constructor_text
from pleiad.sessions import Session


class Snapshots:
    """A folder with the most recent snapshots of all tables. All calls are collective.

    Args:
        session: the session whose tables are saved.
        folder: where the snapshots are written.
        every_steps: save every N steps; 0 disables this.
        every_seconds: save when this many seconds have passed since the last save; 0 disables this.
        keep: number of most recent snapshots to keep.
        background: whether a thread writes the files while training continues.

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
        self._given = {name: value for name, value in locals().items() if name not in ("self", "session")}
        self._core = _core.Snapshots(session._core, os.fspath(folder), every_steps, every_seconds, keep, background)

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)

    def load_last(self, values_only: bool = False) -> dict[str, Any] | None:
        """Loads the newest complete snapshot and returns its step and notes, or None if there is none. With `values_only` the
        state of the update rules is not loaded."""
        return self._core.load_last(values_only)

    def step(self, step: int, notes: dict[str, str] | None = None) -> bool:
        """Call it after every step. Saves if a save is due, and returns whether it did. If the previous save is still being
        written, the new one is postponed to the first step after its end."""
        return self._core.step(step, notes or {})

    def save(self, step: int, notes: dict[str, str] | None = None) -> None:
        """Saves now, whether or not a save is due."""
        self._core.save(step, notes or {})

    def wait(self) -> None:
        """Call it at the end of training. Saves the state of the last `step` unless it is saved already, and waits until
        all files are on disk. Raises on all ranks if a save failed."""
        self._core.wait()

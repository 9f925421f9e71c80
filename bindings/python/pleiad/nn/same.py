"""Checks that all ranks were given the same job."""

from pathlib import Path
from typing import Any

from pleiad import sessions
from pleiad.nn.engine import _nn


def expect_same(session: "sessions.Session", what: str, **asked: Any) -> None:
    """Raises an InvalidArgument on all ranks that names the first of these values that differs between ranks. Collective."""
    if session.size > 1:
        _nn.expect_same(session._core, what, [(name, repr(value)) for name, value in asked.items()])


def expect_same_file(session: "sessions.Session", path: "str | Path", **asked: Any) -> None:
    """Like `expect_same`, for the lines of a file. A file that cannot be read differs from every other file. Collective."""
    if session.size == 1:
        return
    try:
        lines = Path(path).expanduser().read_text(errors="replace").splitlines()
        content = [(f"line {number}", line.strip() or "empty") for number, line in enumerate(lines, 1)]
    except OSError as problem:
        content = [("the file", f"cannot be read: {problem.strerror}")]
    _nn.expect_same(session._core, str(path), [*content, *((name, repr(value)) for name, value in asked.items())])

"""Loads the C++ job runner, and opens the session in which a script runs."""

from typing import Any

import pleiad
from pleiad import sessions
from pleiad.nn.engine import _nn

try:
    from pleiad import _job
except ImportError as problem:
    raise ImportError(f"singa needs the library protobuf (Debian: libprotobuf32): {problem}") from problem

__all__ = ["_job", "_nn", "session"]


def session() -> Any:
    """Returns the session of this process: the one that the script has opened, or a new one."""
    return sessions._current if sessions._current is not None else pleiad.init()

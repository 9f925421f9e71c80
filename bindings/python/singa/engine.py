"""The C++ runner of jobs, loaded as it should be, and the session that a script runs in."""

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
    """That of this process: the one that the script has opened, or a new one in the world that a launcher made."""
    return sessions._current if sessions._current is not None else pleiad.init()

"""Pictures of graphs by Graphviz."""

import shutil
import subprocess
from pathlib import Path

from pleiad.errors import InvalidArgument, StateError


def draw(dot: str, path: Path) -> Path:
    """Draws a graph in Graphviz's language to a file whose suffix selects the format, and returns the path."""
    if path.suffix in (".dot", ".gv"):
        path.write_text(dot)
        return path
    program = shutil.which("dot")
    if program is None:
        raise StateError(
            f"{path}: the program dot of Graphviz was not found; install Debian's package graphviz, or use the suffix .dot"
        )
    done = subprocess.run(
        [program, f"-T{path.suffix[1:] or 'svg'}", "-o", str(path)],
        input=dot,
        text=True,
        capture_output=True,
        timeout=60,
    )
    if done.returncode:
        raise InvalidArgument(f"{path}: dot failed: {done.stderr.strip()}")
    return path

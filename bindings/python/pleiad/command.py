"""The command `pleiad` of an installed package. It runs the program that the package contains."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by the program `pleiad`, with the same arguments."""
    program = Path(__file__).parent / "bin" / "pleiad"
    if not program.exists():
        sys.exit(f"pleiad: {program} does not exist; in a source tree, use build/release/bin/pleiad")
    # `pleiad run file.yaml` calls the command neon of this environment, which need not be activated.
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PATH")])])
    os.execv(program, ["pleiad", *sys.argv[1:]])

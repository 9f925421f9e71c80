"""The command `pleiad` of an installed package: the program that lies in it."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    program = Path(__file__).parent / "bin" / "pleiad"
    if not program.exists():
        sys.exit(f"pleiad: there is no {program}: of a source tree, the command is in build/release/bin")
    # `pleiad run file.yaml` is done by the command neon of this environment, whether it is activated or not.
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PATH")])])
    os.execv(program, ["pleiad", *sys.argv[1:]])

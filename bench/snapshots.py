"""Measures how much periodic background snapshots slow down the workers. Prints one JSON line; ratio = step without / step with.

make bench-snapshots
.venv/bin/python bench/snapshots.py --rounds 3 --every 2
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from measure import ROOT, mpirun_words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="number of alternations")
    parser.add_argument("--every", type=float, default=3, help="seconds between snapshots")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="snapshots-", dir=build))
    program = [build / "bin" / "bench_snapshots", folder, options.rounds, options.every]
    try:
        code = subprocess.run(mpirun_words(options.ranks, *program), check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


main()

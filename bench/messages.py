"""Runs the benchmarks of tables on other hosts, over loopback: one JSON line each, ratio = peer / ours.

make bench-messages
.venv/bin/python bench/messages.py --rounds 5
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="how often ours and the peer take turns")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))
    flags = ["--oversubscribe", "--bind-to", "none", "--quiet"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    command = ["mpirun", *flags, "-np", "2", str(build / "bin" / "bench_messages"), str(options.rounds)]
    sys.exit(subprocess.run(command, check=False, env={**os.environ, "PLEIAD_SPLIT_HOSTS": "2"}).returncode)


main()

"""Runs the benchmarks of tables on other hosts, over loopback, and of sparse tables: one JSON line each, ratio = peer /
ours.

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
    codes = []

    def run(ranks, program, **environment):
        command = ["mpirun", *flags, "-np", str(ranks), str(build / "bin" / program), str(options.rounds)]
        codes.append(subprocess.run(command, check=False, env={**os.environ, **environment}).returncode)

    run(2, "bench_messages", PLEIAD_SPLIT_HOSTS="2")
    for ranks in (1, 2):  # rows of sparse tables: in shared memory, against a bare hash table there
        run(ranks, "bench_sparse")
    sys.exit(max(codes))


main()

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

from measure import ROOT, mpirun_words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="how often ours and the peer take turns")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))
    codes = []

    def run(ranks, program, **environment):
        command = mpirun_words(ranks, build / "bin" / program, options.rounds)
        codes.append(subprocess.run(command, check=False, env={**os.environ, **environment}).returncode)

    run(2, "bench_messages", PLEIAD_SPLIT_HOSTS="2")
    for ranks in (1, 2):  # rows of sparse tables in shared memory, compared with a bare hash table there
        run(ranks, "bench_sparse")
    codes.append(subprocess.run([sys.executable, ROOT / "bench" / "ssp.py"], check=False).returncode)
    sys.exit(max(codes))


main()

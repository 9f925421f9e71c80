"""Runs the benchmarks of tables on other hosts, over loopback: one JSON line each, ratio = peer / ours.

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
    messages = mpirun_words(2, build / "bin" / "bench_messages", options.rounds)
    stragglers = [sys.executable, ROOT / "bench" / "ssp.py"]
    codes = [
        subprocess.run(messages, check=False, env={**os.environ, "PLEIAD_SPLIT_HOSTS": "2"}).returncode,
        subprocess.run(stragglers, check=False).returncode,
    ]
    sys.exit(max(codes))


main()

"""Runs the benchmarks of tables and all-reduce: one JSON line each, ratio = peer / ours.

make bench-tables                          all of it
.venv/bin/python bench/tables.py --rounds 5 --only matrix
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def launched(procs, *command):
    flags = ["--oversubscribe", "--bind-to", "none", "--quiet"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    return ["mpirun", *flags, "-np", str(procs), *map(str, command)]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="how often ours and the peer take turns")
    parser.add_argument("--only", choices=["array_async", "array_sync", "matrix", "allreduce_mpi", "allreduce_gloo"])
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))

    jobs = []
    for name in ("array_async", "array_sync", "matrix"):
        binary = build / "bin" / "bench_tables"
        jobs.append((name, [str(binary), str(options.rounds), name]))
        jobs += [(name, launched(procs, binary, options.rounds, name)) for procs in (2, 4)]
    for procs in (2, 4):
        jobs.append(("allreduce_mpi", launched(procs, build / "bin" / "bench_allreduce_mpi", options.rounds)))
        jobs.append(
            (
                "allreduce_gloo",
                launched(
                    procs, sys.executable, ROOT / "bench" / "allreduce_gloo.py", build, options.rounds, free_port()
                ),
            )
        )
    failed = 0
    for name, command in jobs:
        if options.only in (None, name):
            failed |= subprocess.run(command, check=False).returncode
    sys.exit(1 if failed else 0)


main()

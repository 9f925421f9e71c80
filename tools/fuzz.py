#!/usr/bin/env python3
"""Fuzzes every parser with libFuzzer, one target after another, and prints the number of inputs that were tried.

    tools/fuzz.py --seconds 600           ten minutes for each target
    tools/fuzz.py --seconds 60 csv lmdb   these alone

Inputs that reach new code are kept in build/fuzz/corpus, and inputs that break a target in build/fuzz/found. When the bug is fixed,
move such an input to tests/fuzz/corpus/TARGET."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
LIMITS = ["-rss_limit_mb=2048", "-malloc_limit_mb=256", "-timeout=10"]


def targets():
    """Yields (program, target, longest input) for all programs, which list their targets if called without one."""
    for program in ("fuzz_file", "fuzz_job"):
        environment = {name: value for name, value in os.environ.items() if name != "FUZZ_TARGET"}
        told = subprocess.run([BUILD / "bin" / program, "-runs=0"], capture_output=True, text=True, env=environment)
        for name, longest in re.findall(r"(\w+):(\d+)", told.stderr.split("FUZZ_TARGET is one of")[1]):
            yield program, name, longest


def run(program, target, longest, seconds):
    """Returns the number of inputs that were tried, and whether none broke the target."""
    work, found = BUILD / "corpus" / target, BUILD / "found" / target
    for folder in (work, found):
        folder.mkdir(parents=True, exist_ok=True)
    words = [*LIMITS, f"-max_len={longest}", f"-max_total_time={seconds}", "-print_final_stats=1", "-verbosity=0"]
    command = [
        BUILD / "bin" / program,
        *words,
        f"-artifact_prefix={found}/",
        work,
        ROOT / "tests" / "fuzz" / "corpus" / target,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env={**os.environ, "FUZZ_TARGET": target}
    )
    tried = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode != 0:
        print(done.stderr[-6000:], file=sys.stderr)
    return int(tried[1]) if tried else 0, done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="seconds for each target")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    total, broken = 0, []
    for program, target, longest in list(targets()):
        if options.targets and target not in options.targets:
            continue
        tried, well = run(program, target, longest, options.seconds)
        total += tried
        broken += [] if well else [target]
        print(f"{target}: {tried:,} inputs{'' if well else ', BROKEN'}", flush=True)
    print(
        f"{total:,} inputs in total; {'broken: ' + ', '.join(broken) if broken else 'no crash, no hang, no large allocation'}"
    )
    sys.exit(bool(broken))


main()

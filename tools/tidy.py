#!/usr/bin/env python3
"""Checks sources with clang-tidy and records which are clean. Those are not checked again until they, a header that they
include, or the checks change.

    tools/tidy.py build/release src cli          a build that is up to date, and folders or files
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-19"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def included(build):
    """Returns, for each object file, the files of this project that it depends on, as ninja recorded them."""
    files, of = {}, None
    for line in output_of("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith(" "):
            path = pathlib.Path(os.path.normpath(build / line.strip()))
            if path.is_relative_to(ROOT):
                files[of].append(path)
        elif ": #deps" in line:
            of = os.path.normpath(build / line.split(":")[0])
            files[of] = []
    return files


def digest(*parts):
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="number of parallel processes")
    options = parser.parse_args()
    build = options.build.resolve()
    clean = ROOT / "build" / "tidy"
    clean.mkdir(parents=True, exist_ok=True)

    checks = digest((ROOT / ".clang-tidy").read_bytes(), output_of(TIDY, "--version").encode())
    wanted = tuple(os.path.join(ROOT, source.rstrip("/")) for source in options.sources)
    contents = {}
    made_of = included(build)
    jobs = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = entry["file"]
        if file in jobs or not any(file == place or file.startswith(place + os.sep) for place in wanted):
            continue
        parts = sorted(set(made_of.get(os.path.normpath(build / entry["output"]), [])))
        for part in parts:
            if part not in contents:
                contents[part] = digest(part.read_bytes()).encode()
        known = [contents[part] for part in parts]
        jobs[file] = (
            clean / digest(checks.encode(), file.encode(), entry["command"].encode(), *known) if parts else None
        )
    left = [file for file, stamp in jobs.items() if stamp is None or not stamp.exists()]
    print(f"clang-tidy: {len(jobs)} sources, {len(jobs) - len(left)} of them known to be clean")

    def check(file):
        return file, subprocess.run([TIDY, "--quiet", "-p", build, file], capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for file, done in pool.map(check, left):
            if done.returncode == 0:
                if jobs[file] is not None:
                    jobs[file].touch()
                continue
            failed += 1
            print(done.stdout + ("" if done.stdout else done.stderr), flush=True)
    if failed:
        sys.exit(f"clang-tidy: {failed} sources are not clean")


main()

#!/usr/bin/env python3
"""Collects the durations of a test run from build/reports: durations.py [--most-retries N]

Writes build/durations.json with the parts of the run and the seconds of every case. Prints the parts, the ten slowest cases, and
the cases that passed only when they were run again. Ends with code 1 if there are more than N of those (by default 2), because a
suite that often fails by chance hides real failures.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

REPORTS = pathlib.Path("build/reports")
DOORS = {
    "multiverso": "multiverso|lua|mv_|keras1|theano|applications",
    "singa": "singa",
    "neon": "neon",
    "frameworks": "torch|jax|keras|frameworks|numpy",
    "pleiad.nn": "nn|training",
}


def door_of(path):
    """Returns the API that a Python test covers, by the name of its file."""
    for door, pattern in DOORS.items():
        if re.search(pattern, path):
            return door
    return "the core"


def cases():
    """Yields (suite, name, seconds, processor seconds) of every case that has a report."""
    for report in sorted(REPORTS.glob("*.xml")):
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            suite = report.stem
            if suite == "ctest":
                name = case.get("name")
            elif suite == "pytest":
                suite = f"pytest, {door_of(case.get('classname'))}"
            used = [p.get("value") for p in case.iter("property") if p.get("name") == "processor_seconds"]
            yield suite, name, float(case.get("time") or 0), float(used[0]) if used else 0


def retried():
    """Returns the cases that failed first and passed when they were run again."""
    found = [line for file in REPORTS.glob("*.retried") for line in file.read_text().split()]
    ctest = REPORTS / "ctest.log"
    if ctest.exists():
        text = ctest.read_text(errors="replace")
        ended = text.partition("The following tests FAILED")[2]
        failed = re.findall(r"Test +#\d+: (.+?) \.*\*\*\*(?!Not Run)", text.partition("The following tests FAILED")[0])
        found += sorted({name for name in failed if f" {name} (" not in ended})
    pytest = REPORTS / "pytest.log"
    if pytest.exists():
        text = pytest.read_text(errors="replace")
        failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE))
        found += sorted(set(re.findall(r"^RERUN (\S+)", text, re.MULTILINE)) - failed)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-retries", type=int, default=2)
    most = parser.parse_args().most_retries
    parts = REPORTS / "parts.tsv"
    lines = [line.split("\t") for line in parts.read_text().splitlines()] if parts.exists() else []
    all_cases = sorted(cases(), key=lambda case: -case[2])
    sums = collections.Counter()
    used = collections.Counter()
    for suite, _, seconds, processor_seconds in all_cases:
        sums[suite] += seconds
        used[suite] += processor_seconds
    again = retried()
    pathlib.Path("build/durations.json").write_text(
        json.dumps(
            {
                "parts": {name: float(seconds) for name, seconds, _ in lines},
                "suites": {suite: round(seconds, 1) for suite, seconds in sorted(sums.items())},
                "processor_seconds": {suite: round(seconds, 1) for suite, seconds in sorted(used.items()) if seconds},
                "retried": again,
                "cases": [dict(zip(("suite", "name", "seconds", "processor_seconds"), case)) for case in all_cases],
            },
            indent=1,
        )
        + "\n"
    )
    for name, seconds, _ in lines:
        print(f"{float(seconds) / 60:6.1f} min  {name}")
    for suite, seconds in sorted(used.items()):
        if seconds:
            print(f"{seconds / 60:6.1f} min of processor time  {suite}")
    print("The ten slowest cases (all: build/durations.json):")
    for suite, name, seconds, _ in all_cases[:10]:
        print(f"{seconds:6.1f} s    {name} ({suite})")
    for name in again:
        print(f"FAILED ONCE, passed when run again: {name}")
    if len(again) > most:
        print(f"{len(again)} cases passed only when run again; at most {most} may", file=sys.stderr)
        return 1
    return 0


sys.exit(main())

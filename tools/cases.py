#!/usr/bin/env python3
"""Runs a GoogleTest program, and runs its failed cases once more: cases.py NAME COMMAND...

A case that fails by chance should not stop the cases after it. One that passes the second time is recorded in
build/reports/NAME.retried. tools/durations.py lists it, and fails the run if there are more than a few. Reports of a
sanitizer are
never retried: the program then ends with another code, or without its list of cases.
"""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree

REPORTS = pathlib.Path("build/reports")


def failed_cases(report):
    root = xml.etree.ElementTree.parse(report).getroot()
    return [
        f"{case.get('classname')}.{case.get('name')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None
    ]


def main():
    name, *command = sys.argv[1:]
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    code = subprocess.run([*command, f"--gtest_output=xml:{report.resolve()}"], check=False).returncode
    cases = failed_cases(report) if code == 1 and report.exists() else []
    if not cases:
        return code
    filters = [word for word in command if not word.startswith("--gtest_filter")]
    code = subprocess.run([*filters, f"--gtest_filter={':'.join(cases)}"], check=False).returncode
    if code == 0:
        (REPORTS / f"{name}.retried").write_text("".join(f"{case}\n" for case in cases))
    return code


sys.exit(main())

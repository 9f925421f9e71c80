#!/usr/bin/env python3
"""Runs a GoogleTest program, and once more those of its cases that failed: cases.py COMMAND...

Machines differ, and a case that fails by chance should not stop what comes after it. One that passes the second time is
named, for it needs mending. What a sanitizer reports counts at once: the program then ends with another code, or without
its list of cases.
"""

import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree


def failed_cases(report):
    root = xml.etree.ElementTree.parse(report).getroot()
    return [
        f"{case.get('classname')}.{case.get('name')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None
    ]


def main():
    command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "cases.xml"
        code = subprocess.run([*command, f"--gtest_output=xml:{report}"], check=False).returncode
        cases = failed_cases(report) if code == 1 and report.exists() else []
    if not cases:
        return code
    filters = [word for word in command if not word.startswith("--gtest_filter")]
    code = subprocess.run([*filters, f"--gtest_filter={':'.join(cases)}"], check=False).returncode
    if code == 0:
        print(f"FAILED ONCE, passed the second time: {' '.join(cases)}", flush=True)
    return code


sys.exit(main())

"""Starts scripts of cases (cases.py) and sections of docs/python.md as jobs, and checks that all cases have passed."""

import re
from pathlib import Path

from conftest import ROOT
from run_page import sections


def check_cases(python_job, script, world, **more):
    path = Path(__file__).parent / script
    done = python_job(world, path, timeout=180, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    named = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    assert named and re.findall(r"^ok (\w+)$", done.stdout, re.MULTILINE) == named


def check_suites(python_job, words, world, **more):
    """Runs several scripts of cases, and sections of the page, as one job (run_cases.py)."""
    folder = Path(__file__).parent
    done = python_job(world, folder / "run_cases.py", *words, timeout=180, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, named = [], []
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"(?:suite|ok) (\S+)", line):
            passed.append(match.group(1))
    for word in words:
        if word.endswith(".py"):
            cases = re.findall(r"^def (test_\w+)", (folder / word).read_text(), re.MULTILINE)
            assert cases
            named += [word, *cases]
        else:
            blocks = sections((ROOT / "docs" / "python.md").read_text())[word].count("```python")
            assert blocks > 0
            assert done.stdout.count(f"{word}: {blocks} blocks ran") == (1 if world == "alone" else world)
    assert passed == named

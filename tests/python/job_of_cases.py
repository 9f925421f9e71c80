"""Starts a script of cases (cases.py), or a section of docs/python.md, as a job and checks that all of it has passed."""

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


def check_section(python_job, heading, world, **more):
    page = ROOT / "docs" / "python.md"
    done = python_job(world, Path(__file__).parent / "run_page.py", page, heading, timeout=180, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    blocks = sections(page.read_text())[heading].count("```python")
    assert blocks > 0
    assert done.stdout.count(f"{heading}: {blocks} blocks ran") == (1 if world == "alone" else world)

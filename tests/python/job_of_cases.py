"""Starts a script of cases (cases.py) as a job and checks that every one of them has passed."""

import re
from pathlib import Path


def check_cases(python_job, script, world, **more):
    path = Path(__file__).parent / script
    done = python_job(world, path, timeout=180, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    named = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    assert named and re.findall(r"^ok (\w+)$", done.stdout, re.MULTILINE) == named

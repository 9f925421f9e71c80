"""pleiad.torch: every case in worlds of 1, 2 and 4 ranks."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("world", ["alone", 2, 4])
@pytest.mark.parametrize("script", ["torch_cases.py", "torch_bad_input_cases.py"])
def test_cases(python_job, script, world):
    done = python_job(world, FOLDER / script, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    named = re.findall(r"^def (test_\w+)", (FOLDER / script).read_text(), re.MULTILINE)
    assert named and re.findall(r"^ok (\w+)$", done.stdout, re.MULTILINE) == named

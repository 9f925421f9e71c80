"""Every case of tests/bindings/python in worlds of 1, 2 and 4 ranks, and the cases that users of Multiverso know."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
WORLDS = ["alone", 2, 4]


SCRIPTS = [
    "pleiad_cases.py",
    "sparse_cases.py",
    "bad_input_cases.py",
    "multiverso_cases.py",
    "rules_cases.py",
    "types_cases.py",
    "release_cases.py",
    "snapshot_cases.py",
    "objects_cases.py",
]


LONG = [("release_cases.py", 4)]  # it waits for four ranks a thousand times


@pytest.mark.parametrize(
    ("script", "world"),
    [
        pytest.param(script, world, marks=[pytest.mark.full] if (script, world) in LONG else [])
        for script in SCRIPTS
        for world in WORLDS
    ],
)
def test_cases(python_job, script, world):
    done = python_job(world, FOLDER / script, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    named = re.findall(r"^def (test_\w+)", (FOLDER / script).read_text(), re.MULTILINE)
    assert named and re.findall(r"^ok (\w+)$", done.stdout, re.MULTILINE) == named


def test_rules_written_in_python_run_at_the_owner_on_another_host(python_job):
    done = python_job(4, FOLDER / "rules_cases.py", timeout=120, env={"PLEIAD_SPLIT_HOSTS": "2"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok test_a_rule_that_raises" in done.stdout


@pytest.mark.parametrize("sync", [[], ["--sync"]], ids=["async", "sync"])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("repeat", [2, pytest.param(50, marks=pytest.mark.full)])
def test_multiversos_own_cases(python_job, world, sync, repeat):
    words = ["-m", "multiverso.tests.test_multiverso", *sync, "--repeat", repeat]
    done = python_job(world, *words, timeout=60 + 20 * repeat)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = 1 if world == "alone" else world
    assert done.stdout.count(f"{repeat} runs passed") == ranks
    assert len(re.findall("Ran 4 tests", done.stderr)) == ranks * repeat

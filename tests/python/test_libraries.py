"""Trainer of transformers, accelerate and Lightning over Pleiad, under mpirun and under `pleiad launch`."""

import sys

import pytest
from job_of_cases import check_cases


@pytest.mark.parametrize("world", [2, *(pytest.param(world, marks=pytest.mark.full) for world in ("alone", 3))])
def test_cases(python_job, world):
    check_cases(python_job, "libraries_cases.py", world)


@pytest.mark.full
def test_cases_under_pleiad_launch(run, pleiad, python_env):
    def job(world, *words, timeout, **more):
        return run(pleiad, "launch", "-n", world, "--", sys.executable, *words, timeout=timeout, env=python_env, **more)

    check_cases(job, "libraries_cases.py", 2)

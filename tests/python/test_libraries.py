"""Trainer of transformers, accelerate and Lightning over Pleiad, under mpirun and under `pleiad launch`."""

import sys

import pytest
from job_of_cases import check_cases

full = pytest.mark.full


@pytest.mark.parametrize("world", [2, pytest.param("alone", marks=full), pytest.param(3, marks=full)])
def test_trainer_and_accelerate(python_job, world):
    check_cases(python_job, "libraries_cases.py", world)


@full
@pytest.mark.parametrize("world", ["alone", 2, 3])
def test_lightning(python_job, world):
    check_cases(python_job, "lightning_cases.py", world)


@full
@pytest.mark.parametrize("cases", ["libraries_cases.py", "lightning_cases.py"])
def test_cases_under_pleiad_launch(run, pleiad, python_env, cases):
    def job(world, *words, timeout, **more):
        return run(pleiad, "launch", "-n", world, "--", sys.executable, *words, timeout=timeout, env=python_env, **more)

    check_cases(job, cases, 2)

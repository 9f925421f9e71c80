"""pleiad.keras: every case in worlds of 1, 2 and 4 ranks, on PyTorch and on JAX."""

import pytest
from job_of_cases import check_cases, check_section

full = pytest.mark.full
WORLDS = [("torch", 2), ("jax", 2)]
LONGER = [pytest.param(backend, world, marks=full) for backend in ("torch", "jax") for world in ("alone", 4)]


@pytest.mark.parametrize(("backend", "world"), [*WORLDS, *LONGER])
def test_cases(python_job, backend, world):
    check_cases(python_job, "keras3_cases.py", world, env={"KERAS_BACKEND": backend})


@pytest.mark.parametrize(("backend", "world"), [("torch", 2), ("jax", 2), *LONGER])
def test_patterns_of_everyday_scripts(python_job, backend, world):
    check_cases(python_job, "keras3_patterns_cases.py", world, env={"KERAS_BACKEND": backend})


def test_the_page(python_job):
    check_section(python_job, "Keras 3", 2, env={"KERAS_BACKEND": "torch"})

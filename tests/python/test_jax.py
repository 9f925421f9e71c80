"""pleiad.jax: every case in worlds of 1, 2 and 4 ranks."""

import pytest
from job_of_cases import check_cases, check_section


@pytest.mark.parametrize("world", ["alone", 2, pytest.param(4, marks=pytest.mark.full)])
def test_cases(python_job, world):
    check_cases(python_job, "jax_cases.py", world)


@pytest.mark.parametrize("world", [2, *(pytest.param(world, marks=pytest.mark.full) for world in ("alone", 4))])
def test_compiled_functions(python_job, world):
    check_cases(python_job, "jax_compiled_cases.py", world)


def test_the_page(python_job):
    check_section(python_job, "JAX", 2)

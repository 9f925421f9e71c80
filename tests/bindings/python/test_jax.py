"""pleiad.jax: every case on two ranks, and in test-full on one and four."""

import pytest
from job_of_cases import check_suites

SUITES = ["jax_cases.py", "jax_compiled_cases.py"]
# Most of the time is spent on XLA's compiler. Only test-full optimises.
QUICKLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}


def test_cases_alone(python_job):
    check_suites(python_job, ["jax_cases.py"], "alone", env=QUICKLY)


def test_cases_and_the_page_on_two_ranks(python_job):
    check_suites(python_job, [*SUITES, "JAX"], 2, env=QUICKLY)


@pytest.mark.full
@pytest.mark.parametrize("world", ["alone", 4])
def test_all_cases(python_job, world):
    check_suites(python_job, SUITES, world)

"""pleiad.keras: every case on two ranks, and in test-full on one and four, on PyTorch and on JAX."""

import pytest
from job_of_cases import check_suites

SUITES = ["keras3_cases.py", "keras3_patterns_cases.py"]


@pytest.mark.parametrize(("backend", "words"), [("torch", [*SUITES, "Keras 3"]), ("jax", SUITES)], ids=["torch", "jax"])
def test_cases_and_the_page_on_two_ranks(python_job, backend, words):
    # On JAX, most of the time is spent on XLA's compiler. Only test-full optimises.
    check_suites(python_job, words, 2, env={"KERAS_BACKEND": backend, "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"})


@pytest.mark.full
@pytest.mark.parametrize("world", ["alone", 4])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_all_cases(python_job, backend, world):
    check_suites(python_job, SUITES, world, env={"KERAS_BACKEND": backend})

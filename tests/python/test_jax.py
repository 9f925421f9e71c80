"""pleiad.jax: every case in worlds of 1, 2 and 4 ranks."""

import pytest
from job_of_cases import check_cases


@pytest.mark.parametrize("world", ["alone", 2, 4])
def test_cases(python_job, world):
    check_cases(python_job, "jax_cases.py", world)

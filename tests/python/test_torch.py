"""pleiad.torch: every case on two ranks, and in test-full on one, three and four. The suites share one job, because the import of
PyTorch takes longer than most of them."""

import pytest
from job_of_cases import check_suites

full = pytest.mark.full
SUITES = [
    "torch_cases.py",
    "torch_bad_input_cases.py",
    "torch_patterns_cases.py",
    "torch_tensors_cases.py",
    "torch_loops_cases.py",
    "torch_checkpoint_cases.py",
]


def test_cases_alone(python_job):
    check_suites(python_job, ["torch_cases.py"], "alone")


def test_cases_and_the_page_on_two_ranks(python_job):
    check_suites(python_job, [*SUITES, "process_group_cases.py", "PyTorch"], 2)


@full
@pytest.mark.parametrize("world", ["alone", 4])
def test_all_cases(python_job, world):
    check_suites(python_job, SUITES, world)


@full
@pytest.mark.parametrize("world", ["alone", 3])
def test_process_group(python_job, world):
    check_suites(python_job, ["process_group_cases.py"], world)

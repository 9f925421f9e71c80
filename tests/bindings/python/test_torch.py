"""pleiad.torch: every case on two ranks, and in test-full on one, three and four. The suites share one job, because the
import of PyTorch takes longer than most of them.
"""

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
@pytest.mark.parametrize("world", ["alone", 3, 4])
def test_all_cases(python_job, world):
    check_suites(python_job, SUITES, world)


def test_parameter_managers_on_two_hosts(python_job):
    check_suites(python_job, ["torch_tensors_cases.py"], 2, env={"PLEIAD_SPLIT_HOSTS": "2"})


@full
@pytest.mark.parametrize("settings", [{"PLEIAD_SPLIT_HOSTS": "2"}, {"PLEIAD_SHARED_MEMORY": "off"}], ids=str)
def test_parameter_managers_of_four_ranks_on_several_hosts(python_job, settings):
    check_suites(python_job, ["torch_tensors_cases.py"], 4, env=settings)


@full
@pytest.mark.parametrize("world", ["alone", 3])
def test_process_group(python_job, world):
    check_suites(python_job, ["process_group_cases.py"], world)

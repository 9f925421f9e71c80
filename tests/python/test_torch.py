"""pleiad.torch: every case in worlds of 1, 2 and 4 ranks."""

import pytest
from job_of_cases import check_cases, check_section


@pytest.mark.parametrize("world", ["alone", 2, pytest.param(4, marks=pytest.mark.full)])
def test_cases(python_job, world):
    check_cases(python_job, "torch_cases.py", world)


@pytest.mark.parametrize(
    "world", [pytest.param("alone", marks=pytest.mark.full), 2, pytest.param(4, marks=pytest.mark.full)]
)
def test_bad_input(python_job, world):
    check_cases(python_job, "torch_bad_input_cases.py", world)


def test_the_page(python_job):
    check_section(python_job, "PyTorch", 2)


# Two ranks in `make test`, also one and three in test-full.
two_ranks = pytest.mark.parametrize(
    "world", [2, *(pytest.param(world, marks=pytest.mark.full) for world in ("alone", 3))]
)


@two_ranks
def test_patterns_of_everyday_scripts(python_job, world):
    check_cases(python_job, "torch_patterns_cases.py", world)


@two_ranks
def test_sparse_complex_and_assigned_tensors(python_job, world):
    check_cases(python_job, "torch_tensors_cases.py", world)


@two_ranks
def test_parts_of_the_training_loop(python_job, world):
    check_cases(python_job, "torch_loops_cases.py", world)


@pytest.mark.parametrize("world", [2, *(pytest.param(world, marks=pytest.mark.full) for world in ("alone", 4))])
def test_checkpoints(python_job, world):
    check_cases(python_job, "torch_checkpoint_cases.py", world)


@two_ranks
def test_process_group(python_job, world):
    check_cases(python_job, "process_group_cases.py", world)

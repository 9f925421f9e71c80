"""The conformance suite on processes: the cases that run on threads under ctest, on worlds that mpirun starts."""

import re

import pytest

RANKS = [1, 2, 4]


def passed(job):
    """How many tests each rank passed, if all ranks ran the same and none failed."""
    assert job.returncode == 0, job.stdout[-8000:] + job.stderr[-4000:]
    counts = re.findall(r"\[  PASSED  \] (?:\x1b\[m)?(\d+) tests?", job.stdout)
    assert len(set(counts)) == 1, counts
    assert "FAILED" not in job.stdout
    return len(counts), int(counts[0])


@pytest.mark.parametrize("ranks", RANKS)
def test_all_cases_pass_on_processes(mpirun, build_dir, ranks):
    job = mpirun(ranks, build_dir / "bin" / "conformance", "--gtest_brief=1", timeout=120)
    told, cases = passed(job)
    assert told == ranks and cases > 60, (told, cases)


def test_the_engines_cases_pass_on_two_hosts(mpirun, build_dir):
    command = [build_dir / "bin" / "conformance", "--gtest_brief=1", "--gtest_filter=*_Engine.*"]
    job = mpirun(4, *command, env={"PLEIAD_SPLIT_HOSTS": "2"}, timeout=120)
    told, cases = passed(job)
    assert told == 4 and cases > 10, (told, cases)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [3, 7])
def test_all_cases_pass_on_other_numbers_of_processes(mpirun, build_dir, ranks):
    job = mpirun(ranks, build_dir / "bin" / "conformance", "--gtest_brief=1", timeout=300)
    assert passed(job)[0] == ranks

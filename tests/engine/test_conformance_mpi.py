"""The conformance suite on processes: the cases that ctest runs on threads, in worlds that mpirun starts."""

import re

import pytest

RANKS = [1, 2, 4]


def passed(job):
    """Returns the number of tests that each rank passed. Fails unless all ranks ran the same tests and passed."""
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


def over_messages(mpirun, build_dir, ranks, env, words=("--gtest_brief=1",)):
    job = mpirun(ranks, build_dir / "bin" / "conformance", *words, env=env, timeout=240)
    told, cases = passed(job)
    assert told == ranks
    return cases


def test_tables_and_clocks_keep_their_word_on_two_hosts(mpirun, build_dir):
    words = ("--gtest_brief=1", "--gtest_filter=*_Litmus.*:*_Clock.*:*_Ledger.*:*_Roles.*")
    assert over_messages(mpirun, build_dir, 4, {"PLEIAD_SPLIT_HOSTS": "2"}, words) > 30


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_cases_pass_without_shared_memory(mpirun, build_dir, ranks):
    assert over_messages(mpirun, build_dir, ranks, {"PLEIAD_SHARED_MEMORY": "off"}) > 60


@pytest.mark.full
def test_all_cases_pass_on_two_hosts(mpirun, build_dir):
    assert over_messages(mpirun, build_dir, 4, {"PLEIAD_SPLIT_HOSTS": "2"}) > 60


@pytest.mark.full
@pytest.mark.parametrize("ranks", [3, 7])
def test_all_cases_pass_on_other_numbers_of_processes(mpirun, build_dir, ranks):
    job = mpirun(ranks, build_dir / "bin" / "conformance", "--gtest_brief=1", timeout=300)
    assert passed(job)[0] == ranks

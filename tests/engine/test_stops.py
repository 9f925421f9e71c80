"""Ranks that are stopped, that die before the others have connected to them, and that cannot see each other's
processes.
"""

import os
import signal
import time

import pytest
from jobs import Job, mpirun_words


@pytest.fixture
def start(build_dir):
    """start(words, *arguments, env) runs tests/programs/process.cc with these arguments, after the prefix `words`."""
    jobs = []

    def call(words, *arguments, env=None):
        jobs.append(Job([*words, build_dir / "bin" / "process", *arguments], env=env))
        return jobs[-1]

    yield call
    for job in jobs:
        job.close()


def said(job, key):
    return {line["rank"]: line[key] for line in job.objects() if key in line}


def test_a_long_stop_is_an_error_on_all_ranks_that_names_the_stopped_one(start, tmp_path):
    env = {"PLEIAD_SPLIT_HOSTS": "3", "PLEIAD_HOST_TIMEOUT": "5", "PLEIAD_TIMEOUT": "600"}
    job = start(mpirun_words(3), "steps", tmp_path / "end", env=env)
    job.read_until(lambda job: len(said(job, "hosts")) == 3)
    pid = int(said(job, "pid")[2])
    os.kill(pid, signal.SIGSTOP)
    job.read_until(lambda job: {0, 1} <= set(said(job, "step")))
    os.kill(pid, signal.SIGCONT)
    job.read_until(lambda job: len(said(job, "step")) == 3)
    (tmp_path / "end").touch()
    for rank, error in said(job, "step").items():
        assert "rank 2 (" in error and ("no message from rank 2" in error or "rank 2 (on" in error), (rank, error)
        assert "no message from rank 0" not in error and "no message from rank 1" not in error, (rank, error)
        assert "not answered" not in error or "rank 2 (on" in error.split("has not answered")[0], (rank, error)


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_rank_that_dies_before_it_comes_to_start_is_named_by_the_others(start, tmp_path, when):
    arguments = [tmp_path / "come"] if when == "later" else []
    env = {"PLEIAD_TIMEOUT": "600"}
    job = start(mpirun_words(3, recovery=True), "dies-before-start", *arguments, env=env)
    job.read_until(lambda job: sum("came" in line for line in job.objects()) == 3)
    (tmp_path / "come").touch()
    job.read_until(lambda job: sum("start" in line for line in job.objects()) == 2, seconds=60)
    errors = [line["start"] for line in job.objects() if "start" in line]
    assert all("rank 2 ended before all ranks of the job were connected" in error for error in errors), errors


@pytest.mark.parametrize("late", ["mpirun is stopped", "the program loads slowly"])
def test_a_rank_that_mpirun_starts_late_is_waited_for_and_not_taken_for_dead(start, build_dir, tmp_path, late):
    stopped = late == "mpirun is stopped"
    env = {
        "LD_PRELOAD": build_dir / "lib" / "libslow_launcher.so",
        "SLOW_LAUNCHER": "stopped" if stopped else tmp_path / "go",
        "PLEIAD_TIMEOUT": "600",
    }
    job = start(mpirun_words(3), "world", env=env)
    # Ranks wait 4 s for an idle launcher. This launcher passes on no output while it starts ranks.
    time.sleep(10)
    if stopped:
        os.kill(job.process.pid, signal.SIGCONT)
    (tmp_path / "go").touch()
    assert job.finish() == 0, job.text()
    assert said(job, "size") == {0: "3", 1: "3", 2: "3"}, job.text()


def need_pid_namespaces():
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: PID namespaces need root")
    if os.system("unshare --pid --fork true 2>/dev/null") != 0:
        pytest.skip("SKIPPED: this machine makes no PID namespaces")


def test_ranks_of_different_pid_namespaces_are_different_hosts_and_do_not_look_dead(start, build_dir, tmp_path):
    need_pid_namespaces()
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    others = [":", "-n", 2, build_dir / "bin" / "process", "steps", tmp_path / "end"]
    words = [*mpirun_words(1), *inside]
    job = start(words, "steps", tmp_path / "end", *others, env={"PLEIAD_TIMEOUT": "600"})
    job.read_until(lambda job: len(said(job, "hosts")) == 3)
    (tmp_path / "end").touch()
    assert job.finish() == 0, job.text()
    assert said(job, "hosts") == {0: "2", 1: "2", 2: "2"}, job.text()
    assert said(job, "step") == {0: "", 1: "", 2: ""}, job.text()
    assert "died" not in job.text()

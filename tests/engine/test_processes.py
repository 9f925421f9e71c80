"""Processes in a world: alone, launched, forked, spawned, with another user of MPI, idle, and their reports."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from jobs import Job, mpirun_words, threads_that_run, wait_until_asleep

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def start(build_dir):
    """start(n, *arguments, env=None, recovery=False) starts tests/programs/process.cc on n ranks, or without a launcher
    if n is 0.
    """
    jobs = []

    def call(n, *arguments, env=None, recovery=False):
        command = [build_dir / "bin" / "process", *arguments]
        jobs.append(Job([*mpirun_words(n, recovery=recovery), *command] if n else command, env=env))
        return jobs[-1]

    yield call
    for job in jobs:
        job.close()


def said(job, key):
    """Returns the values that the ranks printed under a key, by rank."""
    return {line["rank"]: line[key] for line in job.objects() if key in line}


def run(start, n, *arguments, env=None, code=0):
    job = start(n, *arguments, env=env)
    assert job.finish() == code, job.text()
    assert job.left() == {}
    return job


# Alone and launched.


def test_a_process_without_a_launcher_is_a_world_of_one_and_loads_no_mpi(start):
    job = run(start, 0, "world")
    assert said(job, "engine") == {0: "solo"}
    assert said(job, "size") == {0: "1"}
    assert said(job, "libmpi") == {0: "no"}
    assert said(job, "module") == {0: "no"}


def test_a_launched_process_is_a_rank_and_loads_mpi(start):
    job = run(start, 3, "world")
    assert said(job, "engine") == {0: "mpi", 1: "mpi", 2: "mpi"}
    assert said(job, "size") == {0: "3", 1: "3", 2: "3"}
    assert set(said(job, "libmpi").values()) == {"yes"}


def test_a_job_of_one_rank_works(start):
    assert said(run(start, 1, "world"), "size") == {0: "1"}


def test_solo_is_solo_under_a_launcher_too(start):
    job = run(start, 2, "world", env={"PLEIAD_ENGINE": "solo"})
    assert said(job, "size") == {0: "1"}
    assert said(job, "libmpi") == {0: "no"}


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_a_launcher_that_disagrees_with_mpi_is_an_error(start, variable):
    job = run(start, 0, "start", env={variable: "4"})
    text = said(job, "start")[-1]
    assert text.startswith("state: "), text
    assert "4 processes" in text and "MPI reports 1" in text and "mpirun" in text, text


def test_slurms_batch_variables_alone_are_no_launcher(start):
    job = run(start, 0, "world", env={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"})
    assert said(job, "engine") == {0: "solo"}


@pytest.mark.parametrize("tasks", ["1", "4"])
def test_srun_without_pmix_is_a_world_of_one_or_an_error_with_the_remedy(start, tasks):
    step = {"SLURM_STEP_ID": "0", "SLURM_SRUN_COMM_PORT": "5000", "SLURM_STEP_NUM_TASKS": tasks}
    if tasks == "1":
        assert said(run(start, 0, "world", env=step), "engine") == {0: "solo"}
        return
    text = said(run(start, 0, "start", env=step), "start")[-1]
    assert text.startswith("state: [start] srun has started 4 processes without PMIx"), text
    assert "--mpi=pmix" in text and "mpirun inside sbatch" in text, text


def test_a_rank_that_is_late_for_start_is_said_to_be(start, tmp_path):
    job = start(2, "late-start", tmp_path / "come", env={"PLEIAD_WARN_AFTER": "0.3"})
    job.read_until(lambda job: any("start is waiting for the other processes" in line for line in job.err))
    (tmp_path / "come").touch()
    assert job.finish() == 0, job.text()
    assert any("start is waiting for the other processes" in line for line in job.err), job.text()
    assert job.left() == {}


def test_a_rank_that_never_comes_to_start_ends_the_others_wait_at_the_deadline(start, tmp_path):
    job = start(2, "late-start", tmp_path / "never", env={"PLEIAD_TIMEOUT": "0.5"})
    job.read_until(lambda job: job.out)
    assert time.monotonic() - job.started < 60
    text = next(line["uncaught"] for line in job.objects())
    assert re.match(
        r".*\[start\] waited (?!0\.[0-4])\d+\.\d s for the other processes of the job \(mpirun reports 2 processes\)",
        text,
    )


# Start and shutdown.


def test_a_second_start_is_an_error_and_one_after_shutdown_is_not(start):
    job = run(start, 2, "again")
    for rank in (0, 1):
        assert "is already a rank of a world" in said(job, "second start")[rank]
        assert said(job, "nested")[rank] == ""
        assert said(job, "worked")[rank] == "20"
        assert said(job, "old table")[rank].startswith("state: ")


@pytest.mark.parametrize("split", [0, 2])
def test_a_session_that_ends_by_an_exception_is_a_death_to_the_others_but_the_process_lives(start, split):
    job = start(2 + split, "throws", env={"PLEIAD_SPLIT_HOSTS": str(split), "PLEIAD_TIMEOUT": "300"}, recovery=True)
    job.finish()
    assert re.match(r"transport: .*rank 1 \(pid \d+ on \S+\) died", said(job, "barrier")[0]), job.text()
    assert said(job, "lives") == {1: "yes"}
    assert "terminate called" not in job.text()
    assert job.left() == {}


def test_the_timeout_comes_from_the_environment_and_names_the_missing_rank(start, tmp_path):
    job = start(3, "late", tmp_path / "come", env={"PLEIAD_TIMEOUT": "5"})  # longer than the ranks need to connect
    job.read_until(lambda job: len(said(job, "waited")) == 2)
    (tmp_path / "come").touch()
    job.finish()
    first = [text for text in said(job, "waited").values() if text.startswith("timeout: ")]
    assert first, job.text()
    assert re.search(r"barrier waited (?![0-4]\.)\d+\.\d s for rank 2 \(pid \d+ on \S+\)", first[0]), first
    assert re.search(r"rank 2 \(pid \d+ on \S+\): idle", first[0]), first


def test_a_bad_value_in_the_environment_is_named(start):
    job = run(start, 0, "start", env={"PLEIAD_TIMEOUT": "soon"})
    assert said(job, "start")[-1].startswith("invalid: environment variable PLEIAD_TIMEOUT"), job.text()


# Child processes.


@pytest.mark.parametrize("n", [0, 2])
def test_a_forked_child_is_inert_and_its_parent_continues(start, n):
    job = run(start, n, "fork")
    for rank in range(max(n, 1)):
        for call in ("get", "add", "get_async", "sync add", "barrier", "all_reduce", "create", "shutdown"):
            text = said(job, f"child {call}")[rank]
            assert text.startswith("state: ") and "forked" in text, (call, text)
        assert said(job, "child nested")[rank] == "", "a world of one inside a forked child"
        assert said(job, "child")[rank] == "code 0", "the child's destructors and its exit"
        assert said(job, "sync")[rank] == "2"
        assert said(job, "async")[rank] == "2"
        assert said(job, "shutdown")[rank] == ""
        if n:
            assert said(job, "child start")[rank].startswith("state: ")


def test_a_spawned_child_is_no_rank_but_may_have_a_world_of_its_own(start):
    job = run(start, 2, "spawn")
    starts = [line["start"] for line in job.objects() if "start" in line]
    assert len(starts) == 2
    for text in starts:
        assert text.startswith("state: ") and "spawned by a rank" in text, text
    assert [line["nested"] for line in job.objects() if "nested" in line] == ["", ""]
    assert set(said(job, "spawned nested").values()) == {"code 0"}


# Together with another user of MPI.


@pytest.mark.parametrize("order", ["before", "after"])
def test_mpi_may_be_initialised_before_or_by_a_session_and_used_between_and_after(mpirun, build_dir, order):
    job = mpirun(3, build_dir / "bin" / "user_mpi", order)
    assert job.returncode == 0, job.stderr
    lines = sorted(job.stdout.splitlines())
    for line in (
        '{"first session": "mpi 3 6"}',
        '{"after": "6"}',
        '{"second session": "mpi 3 6"}',
        '{"finalized": "0"}',
    ):
        assert lines.count(line) == 3, job.stdout


def test_a_session_after_mpi_was_finalised_is_an_error(mpirun, build_dir):
    job = mpirun(2, build_dir / "bin" / "user_mpi", "finalized")
    assert job.stdout.count("MPI was finalised in this process") == 2, job.stdout + job.stderr


@pytest.mark.parametrize("first", ["mpi4py", "pleiad"])
def test_mpi4py_works_in_the_same_process(mpirun, build_dir, first):
    pytest.importorskip("mpi4py")
    job = mpirun(2, sys.executable, TESTS / "programs" / "beside_mpi4py.py", build_dir / "lib" / "libpleiad.so", first)
    assert job.returncode == 0, job.stderr
    expected = ("3 " if first == "mpi4py" else "") + "2 3 3 2 3 3"
    assert job.stdout.splitlines() == [expected] * 2, job.stderr


# Reports.


def test_sigusr1_prints_what_every_rank_is_doing(start, tmp_path):
    job = start(3, "late-sync", tmp_path / "come")
    job.read_until(lambda job: len(said(job, "pid")) == 3)

    def waiting(rank):
        """Returns the lines of the reports so far about a rank that waits for the late one."""
        words = rf'^rank {rank} \(pid \d+ on \S+\): get\("weights"\), waiting for \d+\.\d s; 1 adds'
        return re.search(words, "\n".join(job.err), re.M)

    reports = 0
    while not (waiting(0) and waiting(1)) and reports < 300:  # the ranks may not be waiting yet
        os.kill(int(said(job, "pid")[0]), signal.SIGUSR1)
        reports += 1
        job.read_until(lambda job: sum(line.startswith("rank 2 ") for line in job.err) == reports)
        time.sleep(0.1)
    (tmp_path / "come").touch()
    assert job.finish() == 0, job.text()
    text = "\n".join(job.err)
    assert waiting(0) and waiting(1), text
    assert re.search(r"^rank 2 \(pid \d+ on \S+\): idle; 0 adds, 0 gets", text, re.M), text
    assert set(said(job, "waited").values()) == {""}, "the signal disturbs nobody"


def test_a_handler_of_the_users_for_sigusr1_stays(start):
    assert said(run(start, 2, "own-signal"), "own handler") == {0: "ran", 1: "ran"}


def test_a_handler_that_comes_after_start_outlives_the_session(start):
    assert said(run(start, 2, "later-signal"), "own handler") == {0: "ran", 1: "ran"}


def test_tables_are_made_while_signals_come_all_the_time(start):
    assert said(run(start, 2, "interrupted"), "created") == {0: "", 1: ""}


def test_a_process_that_ends_while_its_thread_adds_leaves_no_lock(mpirun, build_dir):
    job = mpirun(2, build_dir / "bin" / "process", "ends-at-work", recovery=True, timeout=30)
    assert '{"rank": 0, "add": ""}' in job.stdout, job.stdout + job.stderr


def test_a_thread_that_sleeps_before_its_first_call_is_no_deadlock(start):
    job = run(start, 2, "sleeping-thread")
    assert said(job, "sync") == {0: "", 1: ""}
    assert said(job, "sleeper") == {0: ""}


def test_counters_are_printed_at_shutdown_if_enabled(start):
    job = run(start, 2, "stats", env={"PLEIAD_STATS": "1"})
    text = "\n".join(job.err)
    assert len(re.findall(r"^weights +3 +12 KB", text, re.M)) == 2, text
    assert text.count("engine mpi: 1 collectives") == 2, text
    assert "weights" not in "\n".join(run(start, 2, "stats").err)


def test_ranks_may_be_servers_or_nothing_and_workers_do_not_wait_for_them(mpirun, build_dir):
    program = build_dir / "bin" / "process"
    job = mpirun(
        *(1, "-x", "PLEIAD_ROLE=server", program, "roles"),
        *(":", "-n", 1, "-x", "PLEIAD_ROLE=none", program, "roles"),
        *(":", "-n", 2, "-x", "PLEIAD_ROLE=worker", program, "roles"),
    )
    assert job.returncode == 0, job.stderr
    lines = sorted(job.stdout.splitlines())
    for line in ('{"rank": 0, "ids": "-1 0"}', '{"rank": 1, "ids": "-1 -1"}', '{"rank": 2, "ids": "0 -1"}'):
        assert line in lines, job.stdout
    assert [line for line in lines if '"sync": "20"' in line] == [
        '{"rank": 2, "sync": "20"}',
        '{"rank": 3, "sync": "20"}',
    ]
    assert job.stdout.count("this rank is not a worker") == 2


# Costs.


@pytest.mark.parametrize("mode", ["late", "late-sync"])
def test_the_threads_of_an_idle_job_of_four_sleep(start, mode, tmp_path):
    job = start(4, mode, tmp_path / "come")
    job.read_until(lambda job: len(said(job, "pid")) == 4)
    pids = list(said(job, "pid").values())
    wait_until_asleep(*pids)
    looks = 200
    awake = 0
    for _ in range(looks):
        awake += any(threads_that_run(pid) for pid in pids)
        time.sleep(0.01)
    (tmp_path / "come").touch()
    assert job.finish() == 0
    assert awake < looks / 2, f"a thread ran at {awake} of {looks} looks: it does not sleep"


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("clock", ["async", "sync"])
def test_a_million_started_adds_leave_memory_flat(start, n, clock):
    job = run(start, n, "flood", clock)
    grown = {rank: int(text) for rank, text in said(job, "grown").items()}
    assert max(grown.values()) < 2 * 1024 * 1024, grown
    assert set(said(job, "adds").values()) == {"510000"}

"""The failure matrix of docs/consistency.md, columns for processes: SIGKILL ends a rank during a call, between calls
and at a random moment, under mpirun with and without --enable-recovery.
"""

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from jobs import Job, mpirun_words

RANKS = 4
VICTIM = 2
SOON = 120  # seconds; it takes milliseconds, but the machine may be busy. The timeout is half an hour
TRANSPORT = 4

# The point at which the rank ends, and the fault that ends it there: POINT:N is the n-th time that the rank reaches the
# point (src/engine/hooks.h).
POINTS = {
    "in the middle of an add": "add:8",
    "in the middle of a get": "get:8",
    "in a synchronous call": "clock:5",
    "in a barrier": "barrier:6",
    "in an all-reduce": "all_reduce:6",
    "in the creation of a table": "collective:3",
    "before its first call": "collective:1",
}
WITHOUT_TABLES = {"in the creation of a table", "before its first call"}

# The victim is mpirun's own child. The other ranks run under a shell that prints their exit codes, because mpirun with
# --enable-recovery returns 0 for any of them.
WRAPPER = """
if [ "$OMPI_COMM_WORLD_RANK" = "$VICTIM" ]; then exec "$0" "$@"; fi
"$0" "$@"; echo "exit $OMPI_COMM_WORLD_RANK $?"
"""


@pytest.fixture
def start(build_dir):
    """start(*arguments, recovery=False, env=None, victim=VICTIM) starts the program tests/programs/victim.cc on RANKS
    ranks.
    """
    jobs = []

    def call(*arguments, recovery=False, env=None, victim=VICTIM):
        program = build_dir / "bin" / "victim"
        words = ["sh", "-c", WRAPPER, program] if recovery else [program]
        command = [*mpirun_words(RANKS, recovery=recovery), *words, *arguments]
        jobs.append(Job(command, env={"VICTIM": str(victim), **(env or {})}))
        return jobs[-1]

    yield call
    for job in jobs:
        job.close()


def shared_files():
    return {entry.name for entry in Path("/dev/shm").iterdir() if "pleiad" in entry.name}


def observations(job):
    """Returns the survivors' observations, in the order of their lines."""
    return [line for line in job.objects() if "error" in line]


def exit_codes(job):
    return {int(m[1]): int(m[2]) for line in job.out if (m := re.match(r"exit (\d+) (\d+)", line))}


def expect_survivors_told(job, dead, *, tables=True):
    """Checks that every survivor received an error in time that names a dead rank, and could still use the asynchronous
    table.
    """
    names = tuple(f"rank {rank} (pid" for rank in dead)
    seen = observations(job)
    assert len(seen) == RANKS - len(dead), job.text()
    for one in seen:
        assert one["error"] == TRANSPORT, one
        assert any(name in one["text"] for name in names) and "died" in one["text"], one
        assert one["seconds"] < SOON, one
        if tables:
            assert one["table_problem"] == "", one
            assert any(name in one["shutdown"] for name in names), one
            assert one["torn"] <= len(dead), one
    codes = exit_codes(job)
    assert {codes.get(rank) for rank in range(RANKS) if rank not in dead} == {1}, job.text()
    assert any(re.search(rf"error: rank {rank} \(pid \d+ on \S+\) died", line) for rank in dead for line in job.err), (
        job.text()
    )
    assert job.left() == {}
    return seen


@pytest.mark.parametrize("where", POINTS)
def test_with_recovery_survivors_get_an_error_and_continue_when_a_rank_dies(start, where):
    before = shared_files()
    job = start(recovery=True, env={"PLEIAD_FAULT": f"{VICTIM}:{POINTS[where]}"})
    job.finish()
    seen = expect_survivors_told(job, {VICTIM}, tables=where not in WITHOUT_TABLES)
    assert shared_files() == before
    if where in ("in the middle of an add", "in the middle of a get"):
        assert max(one["torn"] for one in seen) == 1, (
            "the dead rank held a lock, and who took it over counts the stripe"
        )
    print(f"{where}: told within {max(one['seconds'] for one in seen) * 1000:.1f} ms of their call")


@pytest.mark.parametrize("where", POINTS)
def test_under_plain_mpirun_the_job_ends_and_names_the_dead_rank(start, where):
    job = start(env={"PLEIAD_FAULT": f"{VICTIM}:{POINTS[where]}"})
    code = job.finish()
    seconds = time.monotonic() - job.started
    assert code != 0, job.text()
    assert seconds < SOON, job.text()
    assert any(re.search(rf"error: rank {VICTIM} \(pid \d+ on \S+\) died", line) for line in job.err), job.text()
    assert job.left() == {}


def test_with_recovery_survivors_get_an_error_when_a_rank_dies_between_two_calls(start):
    job = start("--idle", VICTIM, recovery=True)
    job.finish()
    assert {one["torn"] for one in expect_survivors_told(job, {VICTIM})} == {0}


@pytest.mark.parametrize("count", [1, 150])
def test_with_recovery_a_rank_that_dies_while_it_makes_a_row_leaves_nothing_of_it(start, count):
    job = start("--rows", recovery=True, env={"PLEIAD_FAULT": f"{VICTIM}:make:{count}"})
    job.finish()
    assert {one["torn"] for one in expect_survivors_told(job, {VICTIM})} == {0}


def test_under_plain_mpirun_the_job_ends_when_a_rank_dies_between_two_calls(start):
    job = start("--idle", VICTIM)
    assert job.finish() != 0
    assert any(f"rank {VICTIM} (pid" in line and "died" in line for line in job.err), job.text()
    assert job.left() == {}


def test_with_recovery_a_rank_that_dies_after_its_shutdown_disturbs_no_rank(start):
    job = start("--late", VICTIM, recovery=True)
    job.finish()
    for one in observations(job):
        assert one["error"] is None and one["shutdown"] == "" and one["table_problem"] == "", one
    assert len(observations(job)) == RANKS - 1, job.text()
    assert {exit_codes(job)[rank] for rank in range(RANKS) if rank != VICTIM} == {0}, job.text()
    assert job.left() == {}


def test_under_plain_mpirun_the_job_ends_when_a_rank_dies_after_its_shutdown(start):
    job = start("--late", VICTIM)
    assert job.finish() != 0
    assert time.monotonic() - job.started < SOON
    assert job.left() == {}


def test_with_recovery_the_death_of_rank_0_is_like_any_other(start):
    """Rank 0 created the segments and started MPI's world, but the survivors do not depend on it."""
    job = start(recovery=True, env={"PLEIAD_FAULT": "0:add:8"}, victim=0)
    job.finish()
    expect_survivors_told(job, {0})


def kill_from_outside(start, dead, arguments, seed):
    """Kills ranks of a running job at a random moment. Returns the time and the survivors' observations."""
    job = start("--steps", 1_000_000, *arguments, recovery=True, victim=min(dead))
    job.read_until(lambda job: len(job.objects()) == RANKS)
    pids = {line["rank"]: line["pid"] for line in job.objects()}
    time.sleep(random.Random(seed).uniform(0.05, 0.35))
    at = time.monotonic_ns()
    for rank in dead:
        os.kill(pids[rank], signal.SIGKILL)
    job.finish()
    return at, expect_survivors_told(job, dead)


@pytest.mark.parametrize("seed", range(6))
def test_with_recovery_a_kill_at_a_random_moment_is_reported_and_leaves_the_table_intact(start, seed):
    arguments = [["--async"], []][seed % 2]
    at, seen = kill_from_outside(start, {seed % RANKS}, arguments, seed)
    told = [(one["at"] - at) / 1e9 for one in seen]
    print(f"told after {', '.join(f'{1000 * t:.1f}' for t in sorted(told))} ms")
    assert max(told) < SOON


def test_with_recovery_two_ranks_may_die_at_once(start):
    kill_from_outside(start, {1, 3}, ["--async"], 7)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 160))
def test_with_recovery_many_kills_at_random_moments(start, seed):
    kill_from_outside(start, {seed % RANKS}, [["--async"], []][seed % 2], seed)


def test_segments_have_no_name_in_the_file_system(start):
    """The segments end with the last process that maps them, so none can be left."""
    job = start("--steps", 1_000_000)
    job.read_until(lambda job: len(job.objects()) == RANKS)
    pid = job.objects()[0]["pid"]
    deadline = time.monotonic() + 120
    while "memfd:pleiad" not in (maps := Path(f"/proc/{pid}/maps").read_text()):
        assert time.monotonic() < deadline, maps
    assert not re.search(r"/dev/shm/\S*pleiad", maps)
    os.kill(pid, signal.SIGKILL)
    assert job.finish() != 0
    assert job.left() == {}

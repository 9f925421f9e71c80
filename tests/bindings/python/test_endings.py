"""Python processes that end with an exception or without shutdown, that are interrupted, and that fork; and mpi4py
beside them.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from jobs import Job, mpirun_words, wait_until_asleep

PROGRAM = Path(__file__).parent / "endings.py"


@pytest.mark.parametrize("name", ["raises", "raises_in_a_with_block"])
@pytest.mark.parametrize("recovery", [False, True])
def test_a_worker_that_raises_ends_the_job_with_its_traceback(python_job, name, recovery, tmp_path):
    done = python_job(3, PROGRAM, name, recovery=recovery, outputs=tmp_path)
    assert recovery or done.returncode != 0  # with --enable-recovery, mpirun returns 0
    assert re.search(r'File ".*endings.py", line \d+, in raises', done.stderr)
    # Python writes a line in parts, and mpirun may print output of other ranks between them, so this reads each rank's
    # own output.
    told = (tmp_path / "1" / "rank.2" / "stderr").read_text()
    assert re.search(r'File ".*endings.py", line \d+, in raises', told), told
    assert "ValueError: no " in told, told
    if recovery:  # mpirun lets the others live, and they receive an error and end
        for rank in (0, 1):
            assert re.search(rf"rank {rank} heard: .*rank 2 \(pid \d+ on \S+\)", done.stdout), done.stdout


@pytest.mark.parametrize("how", ["sys.exit(7)", "SystemExit(1)", "SystemExit('no data')"])
def test_a_worker_that_exits_early_ends_the_job(python_job, how):
    assert python_job(2, PROGRAM, "exits_early", how).returncode != 0
    done = python_job(2, PROGRAM, "exits_early", how, recovery=True)
    assert re.search("rank 0 heard: TransportError .*rank 1 .*died", done.stdout), done.stdout + done.stderr
    assert ("no data" in done.stderr) == ("no data" in how), done.stderr


@pytest.mark.parametrize("how", ["sys.exit(0)", "SystemExit()"])
def test_a_worker_that_exits_early_with_status_0_has_shut_down(python_job, how):
    done = python_job(2, PROGRAM, "exits_early", how)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "heard" not in done.stdout


@pytest.mark.parametrize("name", ["forgets_shutdown", "forgets_multiverso_shutdown"])
@pytest.mark.parametrize("world", ["alone", 3])
def test_a_script_that_just_ends_has_shut_down(python_job, name, world):
    done = python_job(world, PROGRAM, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"sum {1 if world == 'alone' else 3}"] * (1 if world == "alone" else 3)
    assert done.stderr == ""


@pytest.mark.parametrize("call", ["barrier", "future", "timed", "receive"])
def test_ctrl_c_stops_a_call_that_waits(python_env, call):
    job = Job([*mpirun_words(2, recovery=True), sys.executable, PROGRAM, "interrupted", call], env=python_env)
    try:
        job.read_until(lambda job: len(job.out) == 2)
        pid = int(next(line.split()[1] for line in job.out if line.startswith("pid")))
        wait_until_asleep(pid)  # in the call
        os.kill(pid, signal.SIGINT)
        sent = time.monotonic()
        job.read_until(lambda job: "KeyboardInterrupt" in job.out, seconds=30)
        assert time.monotonic() - sent < 60
        job.finish()
        assert any(line.startswith("rank 1 heard") for line in job.out), job.text()
        assert any("in interrupted" in line for line in job.err), job.text()
    finally:
        job.close()


def test_ctrl_c_stops_an_init_that_waits_for_another_rank(python_env):
    job = Job([*mpirun_words(2, recovery=True), sys.executable, PROGRAM, "interrupted_in_init"], env=python_env)
    try:
        job.read_until(lambda job: len(job.out) == 1)
        pid = int(job.out[0].split()[1])
        wait_until_asleep(pid)  # in init
        os.kill(pid, signal.SIGINT)
        sent = time.monotonic()
        job.read_until(lambda job: "KeyboardInterrupt" in job.out, seconds=30)
        assert time.monotonic() - sent < 60
    finally:
        job.close()


@pytest.mark.parametrize("world", ["alone", 2])
def test_a_forked_child_gets_an_error_and_the_parent_continues(python_job, world):
    done = python_job(world, PROGRAM, "forks")
    assert done.returncode == 0, done.stderr
    ranks = 1 if world == "alone" else world
    assert (
        sorted(done.stdout.splitlines())
        == ["child: forked forked forked forked 0"] * ranks + [f"parent: {ranks}"] * ranks
    )


@pytest.mark.parametrize("world", ["alone", 2])
def test_children_of_multiprocessing_are_no_ranks(python_job, world):
    done = python_job(world, PROGRAM, "pools", timeout=120)
    assert done.returncode == 0, done.stderr
    ranks = 1 if world == "alone" else world
    # Without a launcher, a spawned child may be a world of its own.
    spawned = "spawn: init" if world == "alone" else "spawn: not a rank"
    lines = ["fork: forked", f"parent: {ranks}", spawned]
    assert sorted(set(done.stdout.splitlines())) == sorted(lines), done.stdout


def test_a_process_that_a_rank_starts_is_no_rank(python_job):
    done = python_job(2, PROGRAM, "starts_a_process")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["child: not a rank "] * 2


@pytest.mark.parametrize("name", ["mpi4py_first", "mpi4py_later"])
@pytest.mark.parametrize("world", [1, 3])
def test_mpi4py_in_the_same_script(python_job, name, world):
    done = python_job(world, PROGRAM, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"sum {world * (world - 1) // 2} {5 * world} True"] * world


def test_a_workers_number_is_known_before_theano_is_imported(python_job):
    done = python_job(2, PROGRAM, "gpu_recipe", env={"PLEIAD_LOG_LEVEL": "off"})
    flags = [f"floatX=float32,device=gpu{worker},lib.cnmem=1" for worker in (0, 1)]
    assert sorted(done.stdout.splitlines()) == flags, done.stderr


def test_a_deadline_that_passes_is_a_timeout_error(python_job, tmp_path):
    done = python_job(2, PROGRAM, "times_out", tmp_path, recovery=True)
    assert "timeout True True" in done.stdout, done.stderr

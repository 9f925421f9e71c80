"""Snapshots of real jobs: killed at random and restarted, inspected, and read by the Python package safetensors."""

import os
import random
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
from jobs import Job
from safetensors.numpy import load_file, save_file


@pytest.fixture
def job(pleiad, build_dir, tmp_path):
    """job(ranks, restarts, steps, *until) runs `pleiad launch` with tests/programs/restart.cc in a folder of its own."""
    jobs = []

    def call(ranks, *until, restarts=0, steps=9, folder="job"):
        (tmp_path / folder).mkdir(exist_ok=True)
        program = [build_dir / "bin" / "restart", tmp_path / folder, steps, *until]
        jobs.append(Job([pleiad, "launch", "-n", ranks, "--grace", 200, "--restart", restarts, *program]))
        return jobs[-1]

    yield call
    for job in jobs:
        job.close()


def digests(job):
    """Returns the final values of the tables. Checks that every rank read the same."""
    ends = [line for line in job.objects() if "sums" in line or "rounds" in line]
    return {key: {line[key] for line in ends if key in line} for key in ("sums", "rounds")}


def replayed(ranks, steps):
    """Returns the digest of the tables after a serial run of all adds."""
    index, rank = np.arange(1000)[:, None], np.arange(ranks)[None, :]
    sums = np.zeros(1000, np.int64)
    for step in range(1, steps + 1):
        sums += ((index * 13 + step * 7 + rank * 5) % 31 - 15).sum(1)
    digest = 1469598103934665603
    for byte in sums.tobytes():
        digest = (digest ^ byte) * 1099511628211 % 2**64
    return str(digest)


def kill_at_random(job, pids, kills, seed):
    """Kills one rank of each attempt at a moment within its first quarter of a second. Returns the number of kills. The
    job waits for the last of them before its last step.
    """
    moment = random.Random(seed)
    done, seen = 0, 0
    while done < kills and job.process.poll() is None:
        lines = pids.read_text().split() if pids.exists() else []
        if len(lines) < seen + 3:
            time.sleep(0.005)
            continue
        here = [int(pid) for pid in lines[seen : seen + 3]]
        seen += 3
        time.sleep(moment.random() * 0.25)
        os.kill(moment.choice(here), signal.SIGKILL)
        done += 1
    return done


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.full)])
def test_a_job_that_is_killed_and_restarted_ends_as_one_that_was_not(job, tmp_path, kills):
    steps = 100 * kills  # long enough that most kills come during the work, not in the wait before the last step
    calm = job(3, steps=steps, folder="calm")
    patience = 300 + 10 * kills  # a restart takes mpirun about a second
    assert calm.finish(seconds=patience) == 0, calm.text()
    expected = digests(calm)
    assert len(expected["sums"]) == len(expected["rounds"]) == 1, calm.text()

    killed = job(3, tmp_path / "killed", restarts=kills, steps=steps)
    reader = threading.Thread(target=killed.finish, kwargs={"seconds": patience})
    reader.start()
    done = kill_at_random(killed, tmp_path / "job" / "pids", kills, seed=kills)
    (tmp_path / "killed").touch()
    reader.join()
    assert killed.process.returncode == 0, killed.text()
    assert done == kills, killed.text()
    assert digests(killed) == expected
    assert digests(killed)["sums"] == {replayed(3, steps)}
    starts = [int(line["from"]) for line in killed.objects() if "from" in line]
    newest = None  # the snapshot that rank 0 saw in the folder before it loaded
    for line in killed.objects():
        newest = line.get("newest", newest)
        assert line.get("from", newest) == newest, "an attempt did not go on from the last snapshot"
    assert starts == sorted(starts), "an attempt began before the snapshot of an earlier one"
    assert any("restart 1 of" in line for line in killed.err), killed.text()


def test_a_snapshot_is_plain_safetensors_and_inspect_prints_it(job, run, pleiad, tmp_path):
    done = job(2, steps=9)
    assert done.finish() == 0, done.text()
    newest = tmp_path / "job" / "run" / "step-00000009"
    parts = [load_file(part) for part in sorted(newest.glob("*.safetensors"))]
    values = np.concatenate([array for part in parts for name, array in part.items() if name.startswith("sums")])
    index, steps, workers = np.arange(1000)[:, None, None], np.arange(1, 10)[None, :, None], np.arange(2)[None, None, :]
    assert np.array_equal(values, ((index * 13 + steps * 7 + workers * 5) % 31 - 15).sum((1, 2)))

    shown = run(pleiad, "inspect", newest, "--numbers", "--verify")
    assert shown.returncode == 0, shown.stderr
    assert "snapshot in" in shown.stdout and "step = 9" in shown.stdout
    assert "table.rounds.rule = adam" in shown.stdout and "rounds/state0" in shown.stdout
    assert f"{values.min()} to {values.max()}" in shown.stdout
    listed = run(pleiad, "inspect", newest.parent)
    assert "step 9, saved 20" in listed.stdout.splitlines()[-1]
    alone = run(pleiad, "inspect", sorted(newest.glob("*.safetensors"))[0])
    assert "sums" in alone.stdout
    for wrong in (tmp_path, tmp_path / "nowhere"):
        refused = run(pleiad, "inspect", wrong)
        assert refused.returncode == 1 and str(wrong) in refused.stderr
    part = sorted(newest.glob("*.safetensors"))[0]
    part.write_bytes(part.read_bytes()[:-1])
    damaged = run(pleiad, "inspect", newest, "--verify")
    assert damaged.returncode == 1 and part.name in damaged.stderr


def test_a_job_that_cannot_succeed_is_restarted_the_requested_number_of_times(run, pleiad):
    done = run(
        pleiad, "launch", "-n", 2, "--restart", 2, "sh", "-c", "echo attempt $PLEIAD_RESTARTED; exit 3", timeout=60
    )
    assert done.returncode == 3
    assert sorted(set(done.stdout.split())) == ["0", "1", "2", "attempt"]
    assert "restart 2 of 2" in done.stderr and "restart 3" not in done.stderr
    once = run(pleiad, "launch", "-n", 1, "--restart", 2, "true", timeout=60)
    assert once.returncode == 0 and once.stderr == ""


READ_ONLY = """
import ctypes, subprocess, sys, time
import numpy, pleiad

folder = sys.argv[1]
with pleiad.init(timeout=600, log_level="off") as session:
    if session.rank == 1:  # this rank sees the folder read-only, in a mount namespace of its own
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x00020000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        for words in (["--make-rprivate", "/"], ["--bind", folder, folder], ["-o", "remount,ro,bind", folder]):
            subprocess.run(["mount", *words], check=True)
    table = session.array(100_000, name="w")
    snapshots = pleiad.Snapshots(session, folder, every_steps=1)
    began = time.monotonic()
    assert snapshots.step(1)
    try:
        snapshots.wait()
    except pleiad.errors.FileError as problem:
        assert "Read-only file system" in str(problem), problem
        assert time.monotonic() - began < 60
        print("told", flush=True)
"""


def test_a_rank_that_cannot_write_keeps_no_rank_waiting(run, pleiad, python_env, tmp_path):
    probe = run("unshare", "--mount", "mount", "--bind", tmp_path, tmp_path)
    if probe.returncode != 0:
        pytest.skip(f"a mount namespace takes root: {probe.stderr.strip()}")
    script = tmp_path / "script.py"
    script.write_text(READ_ONLY)
    folder = tmp_path / "run"
    folder.mkdir()
    done = run(pleiad, "launch", "-n", 2, sys.executable, script, folder, timeout=120, env=python_env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("told") == 2, done.stdout + done.stderr


def test_inspect_prints_control_characters_of_a_file_as_text(run, pleiad, tmp_path):
    path = tmp_path / "odd.safetensors"
    save_file({"w\x1b[2J": np.zeros(2, np.float32)}, path, metadata={"note": "one\ntwo\x1b]0;title\x07"})
    shown = run(pleiad, "inspect", path)
    assert shown.returncode == 0, shown.stderr
    assert "w\\x1b[2J" in shown.stdout and "one\ntwo\\x1b]0;title\\x07" in shown.stdout, shown.stdout
    assert "\x1b" not in shown.stdout


CHECKPOINT = """
import sys, numpy, pleiad
from pleiad import nn
pleiad.init(log_level="off")
net = nn.Sequential([nn.Dense(5, "relu", name="first"), nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
nn.Trainer(net, batch=4).save(sys.argv[1])
"""


def test_inspect_summarises_a_checkpoint_and_prints_its_net_on_request(run, pleiad, python_env, tmp_path):
    folder = tmp_path / "checkpoint"
    made = run(sys.executable, "-c", CHECKPOINT, folder, env=python_env)
    assert made.returncode == 0, made.stderr
    lines = run(pleiad, "inspect", folder).stdout.splitlines()
    assert lines[0].startswith(f"{folder}: checkpoint in 1 part")
    assert re.fullmatch(r"  \d+ arrays, \d+ values", lines[1]), lines
    (net,) = [line for line in lines if line.startswith("  net = ")]
    assert re.fullmatch(r"  net = \d layers \(--net prints them\)", net)
    assert '"layers"' not in "".join(lines)
    printed = run(pleiad, "inspect", folder, "--net").stdout
    assert '"layers"' in printed and '"first"' in printed

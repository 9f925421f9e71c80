"""A rank of a synchronous job is killed at a random moment: no survivor returns a value that is not a complete round,
and none hangs.
"""

import json
import random
import sys
from pathlib import Path

import pytest
from jobs import Job, mpirun_words

SCRIPT = Path(__file__).resolve().parents[1] / "bindings" / "python" / "random_kill.py"
RANKS = 4


def kill_once(python_env, seed, folder):
    """Runs one job and checks its survivors' observations."""
    chance = random.Random(seed)
    victim = chance.randrange(RANKS)
    words = [victim, chance.random() * 200, chance.choice(["array", "matrix"]), chance.choice(["each", "round"])]
    hosts = 1 + seed % 2  # shared memory, and messages between two hosts
    # Rank 0 holds the clocks of several hosts, and a host whose processes no longer answer is named after host_timeout.
    env = {**python_env, "PLEIAD_SPLIT_HOSTS": str(hosts), "PLEIAD_HOST_TIMEOUT": "10", "PLEIAD_TIMEOUT": "120"}
    job = Job([*mpirun_words(RANKS, recovery=True), sys.executable, SCRIPT, *words, folder], env=env)
    try:
        job.finish(seconds=90)
        told = {line["rank"]: line for line in (json.loads(file.read_text()) for file in folder.iterdir())}
        what = f"seed {seed}, rank {victim} killed, {words}, {hosts} hosts\n{job.text()}"
        assert set(told) == set(range(RANKS)) - {victim}, what
        rounds = max(line["seen"] for line in told.values())
        for line in told.values():
            assert line["wrong"] is None, what
            assert rounds - 1 <= line["seen"] <= rounds, what
            for call in ("error", "later", "barrier", "shutdown"):
                assert line[call], f"{call} raised nothing: {what}"
            # Between hosts, a survivor may learn that another survivor met the death and shut down before it learns of
            # the death.
            known = (f"rank {victim} ", "after an add that failed", "check that the host")
            assert any(words in line["error"] for words in known), what
        return rounds
    finally:
        job.close()


@pytest.mark.parametrize("seed", range(4))
def test_no_survivor_of_a_kill_sees_anything_but_completed_rounds(python_env, tmp_path, seed):
    assert kill_once(python_env, seed, tmp_path) >= 1


@pytest.mark.full
def test_no_survivor_of_200_kills_sees_anything_but_completed_rounds(python_env, tmp_path):
    folders = [tmp_path / str(seed) for seed in range(200)]
    for folder in folders:
        folder.mkdir()
    rounds = [kill_once(python_env, 1000 + seed, folder) for seed, folder in enumerate(folders)]
    print(f"200 kills after {min(rounds)} to {max(rounds)} rounds: every value was a completed round, and no rank hung")
    assert len(set(rounds)) > 20, "the kills fell on few different moments"

"""Jobs under mpirun that a test observes while they run."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PATIENCE, kill_session, processes_of


class Job:
    """A started command with its output so far. It runs in a session (setsid) of its own, so that the processes that it
    leaves are found.
    """

    def __init__(self, command, env=None):
        self.out, self.err = [], []
        self.rest = {}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self.streams = {self.process.stdout.fileno(): self.out, self.process.stderr.fileno(): self.err}

    def read_until(self, enough, seconds=30):
        """Reads both streams until enough(self) is true or they end, for at most PATIENCE times this many seconds."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        while self.streams and not enough(self):
            ready, _, _ = select.select(list(self.streams), [], [], max(0, deadline - time.monotonic()))
            if not ready:
                kill_session(self.process.pid)
                pytest.fail(f"no more after {seconds} s\n{self.text()}", pytrace=False)
            for stream in ready:
                data = os.read(stream, 65536)
                lines = self.streams[stream]
                if not data:
                    lines += [last.decode(errors="replace") for last in [self.rest.pop(stream, b"")] if last]
                    del self.streams[stream]
                    continue
                *whole, self.rest[stream] = (self.rest.get(stream, b"") + data).split(b"\n")
                lines += [line.decode(errors="replace") for line in whole]

    def finish(self, seconds=30):
        """Returns the exit code, after the last line."""
        self.read_until(lambda job: False, seconds)
        return self.process.wait(timeout=seconds * PATIENCE)

    def objects(self):
        """Returns the lines of JSON on stdout."""
        return [json.loads(line) for line in self.out if line.startswith("{")]

    def left(self):
        """Returns the processes of the job that still run after its end. Those that are about to end get some time."""
        deadline = time.monotonic() + 60
        while (left := processes_of(self.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return left

    def text(self):
        return "\n".join(["--- stdout", *self.out, "--- stderr", *self.err])

    def close(self):
        kill_session(self.process.pid)
        self.process.wait(timeout=120)
        self.process.stdout.close()
        self.process.stderr.close()


def threads_that_run(pid):
    """Returns the number of threads of a process that run or could run now."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return states.count("R")


def wait_until_asleep(*pids, seconds=30):
    """Waits until no thread of these processes has run for twenty looks: they wait for something."""
    deadline = time.monotonic() + seconds * PATIENCE
    quiet = 0
    while quiet < 20:
        assert time.monotonic() < deadline, "the processes do not wait"
        quiet = 0 if any(threads_that_run(pid) for pid in pids) else quiet + 1
        time.sleep(0.005)


def mpirun_words(ranks, *, recovery=False):
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    assert program, "mpirun is not on the PATH"
    words = [program, "-n", ranks, "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    return words + (["--enable-recovery"] if recovery else [])

"""Runs jobs on several hosts under faults, and checks their histories.

    python tests/chaos.py --faults 1000 --adds 1000000

runs jobs, --jobs of them at once, until both numbers are reached (`make test-chaos`). It needs root.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import history
from hosts import Network
from jobs import Job

HOST_TIMEOUT = 4
# This deadline also applies to the start of a job, so a busy machine needs a long one.
TIMEOUT = 60
# A call on a busy machine may end this many seconds after its deadline.
PATIENCE = 30
START = 30
FAULTS_OF_A_JOB = 20
CLOCKED = 10  # the first table with a clock (tests/programs/chaos.cc)
FILE = 4


class Chaos:
    """One job of `ranks` ranks on `hosts` hosts, and the faults that it is exposed to."""

    def __init__(self, build, folder, *, hosts, ranks, seed, words=("--twice",), disturbed=False):
        self.chance = random.Random(seed)
        self.folder = folder
        self.ranks = ranks
        self.faults = collections.Counter()
        self.dead = set()
        (folder / "disk").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder / "disk"], check=True)
        self.network = None
        self.job = None
        try:
            self.network = Network(hosts, folder)
            if disturbed:
                self.network.disturb(delay=0.001, jitter=0.0005, loss=0.005)
                self.faults["delay and loss"] += 1
            self.start(build, words)
        except BaseException:
            self.close()
            raise

    def start(self, build, words):
        os.environ["PLEIAD_HOST_TIMEOUT"] = str(HOST_TIMEOUT)
        os.environ["PLEIAD_TIMEOUT"] = str(TIMEOUT)
        command = self.network.command(self.ranks, build / "bin" / "chaos", self.folder, *words, recovery=True)
        self.job = Job(command)
        self.wait(lambda: len(self.told("ready")) == self.ranks)
        self.pids = {line["rank"]: line["pid"] for line in self.told("ready")}

    def told(self, what):
        return [line for line in self.job.objects() if what in line]

    def wait(self, done):
        self.job.read_until(lambda job: done(), seconds=START)
        assert done(), self.job.text()

    # The faults. Each one lasts for a random time and has ended when its function returns.

    def pause(self, *, long=0.1):
        """Usually shorter than host_timeout, sometimes longer."""
        longer = self.chance.random() < long
        time.sleep(HOST_TIMEOUT + 1 if longer else self.chance.uniform(0.05, 0.4))

    def stop(self):
        rank = self.chance.choice(self.alive())
        os.kill(self.pids[rank], signal.SIGSTOP)
        self.pause()
        os.kill(self.pids[rank], signal.SIGCONT)

    def partition(self):
        host = self.chance.randrange(len(self.network.names))
        self.network.cut(host)
        self.pause()
        self.network.mend(host)

    def one_way_partition(self):
        """Sends the frames of one host to another to an address that does not exist. The opposite direction still
        works.
        """
        here, there = self.chance.sample(range(len(self.network.names)), 2)
        words = ["-n", self.network.names[here], "neigh", "replace", f"10.77.0.{there + 1}", "dev", "net"]
        self.network.ip(*words, "lladdr", "02:00:00:00:00:99", "nud", "permanent")
        self.pause()
        self.network.ip("-n", self.network.names[here], "neigh", "del", f"10.77.0.{there + 1}", "dev", "net")

    def full_disk(self):
        filler = self.folder / "disk" / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while file.write(bytes(65536)):
                file.flush()
        self.pause(long=0)
        filler.unlink()

    def kill(self):
        """Kills a rank that shares its host with another rank. The shards of a host live as long as one of its ranks."""
        each = self.ranks // len(self.network.names)

        def host_of(rank):
            return rank // each

        alive = self.alive()
        victims = [rank for rank in alive if sum(host_of(other) == host_of(rank) for other in alive) > 1]
        if not victims:
            return False
        rank = self.chance.choice(victims)
        self.dead.add(rank)
        os.kill(self.pids[rank], signal.SIGKILL)
        self.pause(long=0)
        return True

    def alive(self):
        return [rank for rank in range(self.ranks) if rank not in self.dead]

    def suffer(self, count, *, kills):
        """Injects `count` faults one after another, some of them two at once. The last `kills` of them are kills."""
        kinds = [self.stop, self.one_way_partition, self.full_disk]
        if self.network.slow is None:
            kinds.append(self.partition)
        for left in range(count, 0, -1):
            kind = self.kill if left <= kills else self.chance.choice(kinds)
            if kind() is not False:
                self.faults[kind.__name__.replace("_", " ")] += 1

    def work(self, adds):
        """Waits until the ranks have begun about this many adds."""
        files = [self.folder / f"history-{rank}" for rank in range(self.ranks)]
        recorded, since = 0, time.monotonic()
        while recorded < 2 * adds * history.RECORD.itemsize:
            now = sum(file.stat().st_size for file in files)
            if now > recorded:
                recorded, since = now, time.monotonic()
            assert time.monotonic() < since + TIMEOUT + PATIENCE, f"the ranks make no progress: {self.job.text()}"
            time.sleep(0.05)

    def finish(self):
        """Returns the histories of all ranks."""
        (self.folder / "stop").touch()
        self.wait(lambda: len(self.told("acknowledged")) >= len(self.alive()))
        (self.folder / "end").touch()
        return [history.read(self.folder / f"history-{rank}") for rank in range(self.ranks)]

    def close(self):
        if self.job is not None:
            self.job.close()
        if self.network is not None:
            self.network.remove()
        subprocess.run(["umount", self.folder / "disk"], check=False)


def mistakes_in(histories):
    mistakes = history.check(histories, synchronous=(CLOCKED, CLOCKED + 1), bounded=(CLOCKED + 2,), private=(FILE,))
    longest = max(history.longest_call(records) for records in histories)
    if longest > TIMEOUT + PATIENCE:
        mistakes.append(f"a call took {longest:.1f} s; its deadline is {TIMEOUT} s")
    return mistakes, longest


def run_job(build, folder, seed, *, faults, words=("--twice",), kills=None, adds=1000):
    """Runs one job. The seed determines its hosts and kinds of faults, and it ends after at least this many adds.
    Returns its counts and the violations found.
    """
    chance = random.Random(seed)
    hosts = chance.choice([2, 2, 3, 4])
    chaos = Chaos(build, folder, hosts=hosts, ranks=2 * hosts, seed=seed, words=words, disturbed=seed % 5 == 4)
    try:
        chaos.suffer(faults, kills=chance.choice([0, 1, 2]) if kills is None else kills)
        chaos.work(adds)
        histories = chaos.finish()
    finally:
        chaos.close()
    mistakes, longest = mistakes_in(histories)
    acknowledged, unknown = history.counts(histories)
    return chaos.faults, acknowledged, unknown, longest, mistakes


def job_of_seed(build, seed, adds):
    """Calls run_job() in a temporary folder, which is kept only if there are violations."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        done = run_job(build, folder, seed, faults=FAULTS_OF_A_JOB, adds=adds)
    except BaseException as error:
        return (
            collections.Counter(),
            0,
            0,
            0.0,
            [f"{type(error).__name__}: {error}", f"seed {seed}; histories: {folder}"],
        )
    if done[4]:
        return *done[:4], [*done[4][:20], f"seed {seed}; histories: {folder}"]
    shutil.rmtree(folder)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600, help="starts no job after so long")
    parser.add_argument("--seed", type=int, default=0, help="of the first job; the next ones count on")
    parser.add_argument("--jobs", type=int, default=2, help="jobs that run at once")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("SKIPPED: hosts as network namespaces need root")
    began = time.monotonic()
    faults, acknowledged, unknown, longest, jobs = collections.Counter(), 0, 0, 0.0, 0
    share = options.adds * FAULTS_OF_A_JOB // max(options.faults, FAULTS_OF_A_JOB)
    seed, running, mistakes = options.seed, set(), []
    # The names of the hosts contain the process id, so each of several concurrent jobs runs in a process of its own.
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        while True:
            while len(running) < options.jobs and not mistakes and time.monotonic() - began < options.seconds:
                expected = faults.total() + FAULTS_OF_A_JOB * len(running)
                if expected >= options.faults and (running or acknowledged >= options.adds):
                    break
                running.add(pool.submit(job_of_seed, options.build.resolve(), seed, share))
                seed += 1
            if not running:
                break
            finished, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in finished:
                more = one.result()
                faults += more[0]
                acknowledged += more[1]
                unknown += more[2]
                longest = max(longest, more[3])
                mistakes += more[4]
                jobs += 1
                print(
                    f"{time.monotonic() - began:.0f} s: {jobs} jobs, {faults.total()} faults, {acknowledged:,} adds "
                    f"acknowledged, {unknown:,} unknown",
                    flush=True,
                )
    if mistakes:
        sys.exit("\n".join(mistakes))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items()))
    print(
        f"{jobs} jobs, {faults.total()} faults ({kinds}), {acknowledged:,} acknowledged adds and {unknown:,} unknown ones:"
    )
    print(f"none lost, none applied twice, no read went back; the longest call took {longest:.1f} s")
    if faults.total() < options.faults or acknowledged < options.adds:
        sys.exit(f"stopped after {options.seconds:.0f} s, before {options.faults} faults and {options.adds:,} adds")


if __name__ == "__main__":
    main()

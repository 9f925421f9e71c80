#!/usr/bin/env python3
"""Fuzzes every parser with libFuzzer.

    tools/fuzz.py --seconds 600               runs each target for ten minutes
    tools/fuzz.py --seconds 60 csv lmdb       runs these two alone
    tools/fuzz.py --runs 100000000 --jobs 2   runs until all targets together have executed this number of inputs

With --runs, each target first executes --least inputs. After that, the target that has used the least processor time runs next.
The counts are kept in executed.json beside the programs, so a run that was stopped continues. Delete the file to count from zero.

With --build build/fuzz-fast, the programs have the assertions of the standard library and a limit for allocations, but no address sanitizer.
They execute several times as many inputs in a second. A later run of the other build repeats the inputs that reached new code.

Inputs that reach new code stay in build/fuzz/corpus. An input that breaks a target is kept in build/fuzz/found. Copy it to
tests/fuzz/corpus/TARGET once the mistake is fixed."""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
WORK = BUILD / "corpus"
FOUND = BUILD / "found"
LIMITS = ["-rss_limit_mb=2048", "-malloc_limit_mb=256", "-timeout=10"]
# The omitted checks take half the time of a target that throws. The address sanitizer's replay of the corpus keeps
# them.
SANITIZER = "detect_stack_use_after_return=0:quarantine_size_mb=8:malloc_context_size=4"

Target = collections.namedtuple("Target", "program name longest")  # program: its path
Slice = collections.namedtuple("Slice", "runs cpu well")


def targets(build, wanted):
    """Returns all targets, or those in `wanted`. A program that is started without a target lists its targets and their
    maximum input lengths.
    """
    found = []
    for program in (build / "bin" / "fuzz_file", build / "bin" / "fuzz_job"):
        environment = {name: value for name, value in os.environ.items() if name != "FUZZ_TARGET"}
        told = subprocess.run([program, "-runs=0"], capture_output=True, text=True, env=environment)
        listed = re.findall(r"([\w-]+):(\d+)", told.stderr.split("FUZZ_TARGET is one of")[1])
        found += [Target(program, name, int(longest)) for name, longest in listed]
    if unknown := set(wanted) - {target.name for target in found}:
        sys.exit(f"unknown target {', '.join(sorted(unknown))}; known: {', '.join(target.name for target in found)}")
    return [target for target in found if not wanted or target.name in wanted]


def execute(target, *words):
    """Runs libFuzzer. Returns its exit code, its output and the processor time that it used."""
    environment = {**os.environ, "FUZZ_TARGET": target.name}
    environment["ASAN_OPTIONS"] = f"{SANITIZER}:{os.environ.get('ASAN_OPTIONS', '')}"
    command = [target.program, *LIMITS, f"-max_len={target.longest}", "-verbosity=0", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    text = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, text, usage.ru_utime + usage.ru_stime


def run(target, seconds):
    """Runs one target for this many seconds."""
    work, found = WORK / target.name, FOUND / target.name
    for folder in (work, found):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds:.0f}", "-print_final_stats=1", f"-artifact_prefix={found}/"]
    code, text, cpu = execute(target, *limits, work, ROOT / "tests" / "fuzz" / "corpus" / target.name)
    executed = re.search(r"number_of_executed_units: (\d+)", text)
    well = code == 0 or waited_for_a_processor(target, text)
    if not well:
        print(text[-6000:], file=sys.stderr, flush=True)
    return Slice(int(executed[1]) if executed and well else 0, cpu, well)


def waited_for_a_processor(target, text):
    """Returns true for an input that exceeded the time limit once and does not exceed it again: the machine was busy."""
    slow = re.search(r"Test unit written to (\S*/timeout-\w+)", text)
    if slow is None or execute(target, slow[1])[0] != 0:
        return False
    os.unlink(slow[1])
    return True


class Campaign:
    """Chooses the target that runs next, and counts."""

    def __init__(self, chosen, options):
        self.targets = chosen
        self.options = options
        self.counts = options.build / "executed.json"
        self.runs, self.cpu, self.wall = collections.Counter(), collections.Counter(), collections.Counter()
        self.busy, self.broken = set(), set()
        self.began = time.monotonic()
        self.least = min(options.least, options.runs // len(chosen))
        if options.runs and self.counts.exists():
            before = json.loads(self.counts.read_text())
            self.runs.update(before["runs"])
            self.cpu.update(before["cpu"])
        self.inherited = self.total()

    def total(self):
        return sum(self.runs[target.name] for target in self.targets)

    def next(self):
        """Returns the target that runs next and for how long, or None."""
        idle = [target for target in self.targets if target.name not in self.busy | self.broken]
        if not self.options.runs:
            idle = [target for target in idle if self.wall[target.name] == 0]
            return (idle[0], self.options.seconds) if idle else None
        behind = [target for target in idle if self.runs[target.name] < self.least]
        if not idle or (self.total() >= self.options.runs and not behind):
            return None
        return min(behind or idle, key=lambda target: self.cpu[target.name]), self.options.slice

    def count(self, target, seconds, done):
        self.busy.remove(target.name)
        self.runs[target.name] += done.runs
        self.cpu[target.name] += done.cpu
        self.wall[target.name] += seconds
        if not done.well:
            self.broken.add(target.name)
        if self.options.runs:
            self.counts.write_text(json.dumps({"runs": self.runs, "cpu": self.cpu}, indent=1))
        rate = (self.total() - self.inherited) / (time.monotonic() - self.began)
        print(
            f"{target.name}: {done.runs:,} inputs, {done.runs / max(done.cpu, 0.01):,.0f} per second of a processor"
            f"{'' if done.well else ', BROKEN'}; {self.total():,} in total, {rate:,.0f} per second",
            flush=True,
        )

    def work(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            running = {}
            while True:
                while len(running) < self.options.jobs and (chosen := self.next()):
                    target, seconds = chosen
                    self.busy.add(target.name)
                    running[pool.submit(run, target, seconds)] = chosen
                if not running:
                    return
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for one in done:
                    self.count(*running.pop(one), one.result())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="for each target, without --runs")
    parser.add_argument("--runs", type=int, default=0, help="inputs that all targets execute together")
    parser.add_argument("--least", type=int, default=300_000, help="inputs that each target executes, with --runs")
    parser.add_argument("--slice", type=int, default=60, help="seconds that a target runs at a time, with --runs")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at once")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD, help="the folder of the programs")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    campaign = Campaign(targets(options.build.resolve(), options.targets), options)
    campaign.work()
    for target in campaign.targets:
        name = target.name
        print(f"{name:16}{campaign.runs[name]:14,} inputs in {campaign.cpu[name]:9,.1f} s of a processor")
    result = "no crash, no hang, no large allocation"
    if campaign.broken:
        result = f"broken: {', '.join(sorted(campaign.broken))}; see {FOUND}"
    print(f"{campaign.total():,} inputs in total; {result}")
    sys.exit(bool(campaign.broken))


if __name__ == "__main__":
    main()

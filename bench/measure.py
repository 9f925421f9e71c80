"""Interleaved measurements of Pleiad and a peer, one JSON line each. measure.h is the C++ counterpart."""

import json
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def mpirun_words(ranks, *words):
    """Returns the command that starts `ranks` ranks of a program on any machine, also as root."""
    flags = ["--oversubscribe", "--bind-to", "none", "--quiet"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    return ["mpirun", *flags, "-np", str(ranks), *map(str, words)]


def spread(values):
    """Returns half the interquartile range, relative to the median."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(values)


def timed(body):
    """Returns a function turn(repeats) that returns the mean time of body() in microseconds."""

    def turn(repeats):
        start = time.perf_counter()
        for _ in range(repeats):
            body()
        return (time.perf_counter() - start) * 1e6 / repeats

    return turn


def compare(name, size, ours, peer, *, rounds=21, block_us=20000, **more):
    """Alternates ours(repeats) and peer(repeats), which return microseconds, and prints the line."""
    ours(20), peer(20)
    repeats = max(1, int(block_us / min(peer(20), peer(20))))
    our_us, peer_us = [], []
    for turn in range(rounds):
        # The order alternates, so that neither side benefits from data that the other left in the caches.
        for which in (ours, peer) if turn % 2 == 0 else (peer, ours):
            (our_us if which is ours else peer_us).append(which(repeats))
    line = {"name": name, "procs": 1, "size": size, "median_us": round(statistics.median(our_us), 3)}
    line |= {"spread": round(spread(our_us), 3), "peer_us": round(statistics.median(peer_us), 3)}
    line["ratio"] = round(statistics.median(p / o for p, o in zip(peer_us, our_us)), 3)
    print(json.dumps(line | more), flush=True)

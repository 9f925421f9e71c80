"""Measures training on several processes, each bound to a core. Prints JSON lines.

make bench-nn-scale
.venv/bin/python bench/nn_scale.py --net cnn --ranks 2 --rounds 5

nn_scale: data parallel, with a batch of `size` per process. median_us is the time of a step of all processes, peer_us
that of one
process alone on one core, and ratio the throughput of all divided by that of one. cpu_ratio is the same for processor
time, which
other programs disturb less. Both alternate.
nn_rss: the peak of resident memory of one process, and of PyTorch with the same net, batch and steps. ratio = PyTorch's
/ ours.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from measure import spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))

TORCH = """
import resource, sys, torch
from torch import nn
torch.set_num_threads(1)
batch, steps = int(sys.argv[1]), int(sys.argv[2])
lrn = lambda: nn.LocalResponseNorm(3, 5e-5, 0.75)
model = nn.Sequential(
    nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2), nn.ReLU(), lrn(),
    nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2), lrn(),
    nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2), nn.Flatten(), nn.Linear(576, 10))
rule = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
x, label = torch.randn(batch, 3, 32, 32), torch.arange(batch) % 10
for _ in range(steps):
    rule.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(x), label).backward()
    rule.step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(ranks, net, batch, steps):
    """Returns the output of bench_nn_scale with this number of processes, each bound to a core."""
    program = [BUILD / "bin" / "bench_nn_scale", net, batch, steps]
    core = min(os.sched_getaffinity(0))
    launch = (
        ["taskset", "-c", core] if ranks == 1 else [BUILD / "bin" / "pleiad", "launch", "-n", ranks, "--bind", "core"]
    )
    result = subprocess.run(
        [str(word) for word in launch + program],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if result.returncode != 0:
        raise SystemExit(f"bench_nn_scale on {ranks} ranks failed: {result.stderr.strip()}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def scale(options):
    one, many = [], []
    for turn in range(options.rounds):
        for ranks in (1, options.ranks) if turn % 2 == 0 else (options.ranks, 1):
            (one if ranks == 1 else many).append(measure(ranks, options.net, options.batch, options.steps))

    def ratio(key):
        return round(statistics.median(options.ranks * a[key] / b[key] for a, b in zip(one, many, strict=True)), 3)

    steps = [run["step_us"] for run in many]
    line = {"name": "nn_scale", "procs": options.ranks, "size": options.batch, "net": options.net}
    line |= {"median_us": statistics.median(steps), "spread": round(spread(steps), 3)}
    line |= {"peer_us": statistics.median(run["step_us"] for run in one)}
    print(json.dumps(line | {"ratio": ratio("step_us"), "cpu_ratio": ratio("cpu_us")}), flush=True)
    return max(run["rss_mb"] for run in one), max(run["rss_mb"] for run in many)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="cnn", help="one of `pleiad explain`'s nets")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=100, help="of each process")
    parser.add_argument("--steps", type=int, default=20, help="that are timed together")
    parser.add_argument("--rounds", type=int, default=9, help="how often one process and many take turns")
    options = parser.parse_args()
    alone, together = scale(options)
    if options.net != "cnn":
        return
    result = subprocess.run(
        [sys.executable, "-c", TORCH, str(options.batch), str(options.steps + 3)],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    peer = float(result.stdout)
    line = {"name": "nn_rss", "procs": 1, "size": options.batch, "rss_mb": alone, "rss_mb_of_a_rank": together}
    print(json.dumps(line | {"peer_rss_mb": round(peer, 1), "ratio": round(peer / alone, 3)}), flush=True)


main()

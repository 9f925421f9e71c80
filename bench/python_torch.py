"""Measures training steps of PyTorch with pleiad.torch. Prints a JSON line each.

make bench-python
PYTHONPATH=build/release/python .venv/bin/python bench/python_torch.py [--rounds 20] [--only step|pair] [--models mlp
cnn] [--batches 64 1000]

torch_step_...: one process on all cores: a step with an exchange after every batch. The peer is the step without an
exchange.
`overhead` is the additional time, relative to the peer's.
torch_two_...: two processes, each on one core. The peer is one process on one core, in time for the same number of
images.
torch_two_apart: the same without any exchange, an upper limit that the shared memory of the cores sets.
torch_ddp_...: two processes, each on one core. The peer is DistributedDataParallel over gloo.
torch_ddp_apart: the limit: the ratio of two processes that exchange nothing to DDP.
sync: DistributedOptimizer. accumulate4: with accumulate=4, compared with DDP with no_sync() around three passes of
four.
sync_gradient: ParameterManager in gradient mode with clock "sync". async: in delta mode. async_gradient, async_live: in
gradient
mode, the latter with live=True.

All variants alternate in each round. median_us is the time of one batch. ratio is the median over the rounds of the
peer's time
divided by ours in the same round. spread and ratio_spread are half the interquartile range, relative to the median.
cpu_us and
peer_cpu_us are the processor time of a batch on one rank, which other work on the machine disturbs less.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed
from measure import spread, timed
from torch import nn

import pleiad
import pleiad.torch

WIDTHS = [784, 2500, 2000, 1500, 1000, 500, 10]


def mlp():
    layers = []
    for before, after in zip(WIDTHS, WIDTHS[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


MODELS = {"mlp": mlp, "cnn": cnn}


def size_of(model):
    return sum(x.numel() for x in model.parameters())


def stepper(model, optimizer, batch, after=None, passes=1, skip=contextlib.nullcontext):
    """Returns a function that trains the model by one step on `passes` batches. skip() surrounds all backward passes
    but the last.
    """
    torch.manual_seed(0)
    x, y = torch.rand(batch, 784), torch.randint(0, 10, (batch,))
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        for i in range(passes):
            with skip() if i + 1 < passes else contextlib.nullcontext():
                loss_of(model(x), y).backward()
        optimizer.step()
        if after is not None:
            after()

    return step


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.01)


def one_process(options):
    for kind, batch in [(kind, batch) for kind in options.models for batch in options.batches]:
        with pleiad.init(log_level="off"):
            ways = {}
            model = MODELS[kind]()
            size = size_of(model)
            ways["plain"] = stepper(model, sgd(model), batch)
            model = MODELS[kind]()
            ways["sync"] = stepper(model, pleiad.torch.DistributedOptimizer(sgd(model), module=model), batch)
            for clock in ("async", "sync"):
                model = MODELS[kind]()
                manager = pleiad.torch.ParameterManager(model, clock=clock)
                ways[f"manager_{clock}"] = stepper(model, sgd(model), batch, manager.sync)
            times = {name: [] for name in ways}
            for turn in range(options.rounds + 1):
                for name in list(ways) if turn % 2 else reversed(ways):
                    took = timed(ways[name])(options.steps)
                    if turn:  # the first round warms up
                        times[name].append(took)
        plain = times.pop("plain")
        for name, ours in times.items():
            overhead = statistics.median(mine / peer for mine, peer in zip(ours, plain)) - 1
            more = {"model": kind, "batch": batch, "overhead": round(overhead, 4)}
            line(f"torch_step_{name}", size, ours, plain, procs=1, **more)


def line(name, size, ours, peer, procs=2, **more):
    ratios = [theirs / mine for theirs, mine in zip(peer, ours)]
    out = {
        "name": name,
        "procs": procs,
        "size": size,
        "rounds": len(ours),
        "median_us": round(statistics.median(ours), 1),
    }
    out |= {"spread": round(spread(ours), 3), "peer_us": round(statistics.median(peer), 1)}
    out |= {"ratio": round(statistics.median(ratios), 3), "ratio_spread": round(spread(ratios), 3)}
    print(json.dumps(out | more), flush=True)


def rank_of_two(options):
    """The program of each of the two processes. All variants alternate in one job."""
    torch.set_num_threads(1)
    session = pleiad.init(log_level="off")
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.distributed.init_process_group("gloo", rank=session.rank, world_size=session.size)
    for kind, batch in [(kind, batch) for kind in options.models for batch in options.batches]:
        ways = {}
        model = MODELS[kind]()
        size = size_of(model)
        ways["one"] = ways["apart"] = stepper(model, sgd(model), batch)
        model = nn.parallel.DistributedDataParallel(MODELS[kind]())
        ways["ddp"] = stepper(model, sgd(model), batch)
        model = nn.parallel.DistributedDataParallel(MODELS[kind]())
        ways["ddp4"] = stepper(model, sgd(model), batch, passes=4, skip=model.no_sync)
        model = MODELS[kind]()
        optimizer = pleiad.torch.DistributedOptimizer(sgd(model), module=model, accumulate=4)
        ways["accumulate4"] = stepper(model, optimizer, batch, passes=4)
        for name, overlap in (("sync", None), ("sync_thread", True)):
            model = MODELS[kind]()
            optimizer = pleiad.torch.DistributedOptimizer(sgd(model), module=model, overlap=overlap)
            ways[name] = stepper(model, optimizer, batch)
        model = MODELS[kind]()
        manager = pleiad.torch.ParameterManager(model)
        ways["async"] = stepper(model, sgd(model), batch, manager.sync)
        gradients = {"sync_gradient": {"clock": "sync"}, "async_gradient": {}, "async_live": {"live": True}}
        for name, settings in gradients.items():
            model = MODELS[kind]()
            rule = {"rule": "sgd", "learning_rate": 0.01}
            manager = pleiad.torch.ParameterManager(model, mode="gradient", updater=rule, **settings)
            model.step = manager.sync  # the table makes the step
            ways[name] = stepper(model, model, batch)
        times = {name: [] for name in ways}
        worked = {name: [] for name in ways}  # processor time, which other work on the machine disturbs less
        for turn in range(options.rounds + 1):
            for name in list(ways) if turn % 2 else reversed(ways):
                session.barrier()
                start, busy = time.perf_counter(), time.process_time()
                passes = 4 if name.endswith("4") else 1
                steps = max(1, options.steps // passes)
                if name != "one" or session.rank == 0:
                    for _ in range(steps):
                        ways[name]()
                busy = time.process_time() - busy
                session.barrier()
                if turn:  # the first round warms up
                    times[name].append((time.perf_counter() - start) * 1e6 / steps / passes)
                    worked[name].append(busy * 1e6 / steps / passes)
        if session.rank:
            continue
        cpu = {name: round(statistics.median(of), 1) for name, of in worked.items()}
        for name in [name for name in ways if name != "one"]:
            more = {"model": kind, "batch": batch, "cpu_us": cpu[name], "peer_cpu_us": round(2 * cpu["one"], 1)}
            line(f"torch_two_{name}", size, times[name], [2 * t for t in times["one"]], **more)
        for name in [name for name in ways if name not in ("one", "ddp", "ddp4")]:
            peer = "ddp4" if name.endswith("4") else "ddp"
            more = {"model": kind, "batch": batch, "cpu_us": cpu[name], "peer_cpu_us": cpu[peer]}
            line(f"torch_ddp_{name}", size, times[name], times[peer], **more)
    torch.distributed.destroy_process_group()
    session.shutdown()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="how often all take turns")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--only", choices=["step", "pair", "rank"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[64], help="of each process")
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only == "rank":
        return rank_of_two(options)
    if options.only != "pair":
        one_process(options)
    if options.only != "step":
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [shutil.which("mpirun"), "-n", "2", "--bind-to", "core", *root, sys.executable, __file__]
        words = ["--only", "rank", "--port", free_port(), "--rounds", options.rounds, "--steps", options.steps]
        words += ["--models", *options.models, "--batches", *options.batches]
        done = subprocess.run([*command, *map(str, words)], timeout=1800)
        return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Training steps of PyTorch with pleiad.torch: a JSON line each.

make bench-python
PYTHONPATH=build/release/python .venv/bin/python bench/python_torch.py [--rounds 15] [--only step|pair] [--models mlp cnn] [--batches 64 1000]

torch_step: one process, all cores: a step with an exchange after every batch; the peer is the step without.
torch_two_...: two processes, each on one core; the peer is one process on one core, in time for as many images.
torch_two_apart: the same with no exchange at all, which is what the memory that both cores share leaves to be had.
torch_ddp_...: two processes, each on one core; the peer is DistributedDataParallel over gloo.
sync: DistributedOptimizer; sync_gradient: ParameterManager in gradient mode, clock "sync"; async: in delta mode;
async_gradient, async_live: in gradient mode, with live=True.
cpu_us, peer_cpu_us: processor time of a step on one rank, which other work on the machine disturbs less.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed
from measure import compare, spread, timed
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


def stepper(model, optimizer, batch, after=None):
    """A function that trains the model on one batch."""
    torch.manual_seed(0)
    x, y = torch.rand(batch, 784), torch.randint(0, 10, (batch,))
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
        if after is not None:
            after()

    return step


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.01)


def few(turn):
    """A step is long: a turn has some steps at most."""
    return lambda repeats: turn(min(repeats, 3))


def one_process(options):
    for kind in options.models:
        for batch in (64, 1000):
            for clock in ("async", "sync"):
                with pleiad.init(log_level="off"):
                    plain, shared = MODELS[kind](), MODELS[kind]()
                    manager = pleiad.torch.ParameterManager(shared, clock=clock)
                    ours = timed(stepper(shared, sgd(shared), batch, manager.sync))
                    peer = timed(stepper(plain, sgd(plain), batch))
                    more = {"model": kind, "batch": batch, "clock": clock}
                    compare("torch_step", size_of(plain), few(ours), few(peer), rounds=options.rounds, **more)


def line(name, size, ours, peer, ratio, **more):
    out = {"name": name, "procs": 2, "size": size, "median_us": round(statistics.median(ours), 1)}
    out |= {"spread": round(spread(ours), 3), "peer_us": round(statistics.median(peer), 1), "ratio": round(ratio, 3)}
    print(json.dumps(out | more), flush=True)


def rank_of_two(options):
    """What each of the two processes runs. They take turns with every way to train, all in one job."""
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
                if name != "one" or session.rank == 0:
                    for _ in range(options.steps):
                        ways[name]()
                busy = time.process_time() - busy
                session.barrier()
                if turn:  # the first warms up
                    times[name].append((time.perf_counter() - start) * 1e6 / options.steps)
                    worked[name].append(busy * 1e6 / options.steps)
        if session.rank:
            continue
        cpu = {name: round(statistics.median(of), 1) for name, of in worked.items()}
        for name in [name for name in ways if name != "one"]:
            more = {"model": kind, "batch": batch, "cpu_us": cpu[name], "peer_cpu_us": round(2 * cpu["one"], 1)}
            ratio = statistics.median(2 * one / two for one, two in zip(times["one"], times[name]))
            line(f"torch_two_{name}", size, times[name], [2 * t for t in times["one"]], ratio, **more)
        for name in [name for name in ways if name not in ("one", "apart", "ddp")]:
            more = {"model": kind, "batch": batch, "cpu_us": cpu[name], "peer_cpu_us": cpu["ddp"]}
            ratio = statistics.median(ddp / ours for ddp, ours in zip(times["ddp"], times[name]))
            line(f"torch_ddp_{name}", size, times[name], times["ddp"], ratio, **more)
    torch.distributed.destroy_process_group()
    session.shutdown()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="how often all take turns")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn, of two processes")
    parser.add_argument("--only", choices=["step", "pair", "rank"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 1000], help="of two processes")
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

"""Trains the same nets with Pleiad, PyTorch and JAX, alternating in one process. Prints a JSON line each.

    make bench-nn                                    all nets, with one thread and with two
    PYTHONPATH=build/release/python .venv/bin/python bench/nn.py --only mlp --threads 2 --rounds 5

All use the same weights and the same batch, and the losses of the first steps are compared before the measurement.
ratio is the
time of eager PyTorch divided by ours. ratio_best is that of the best variant of PyTorch (eager; with its fused
optimizer;
channels-last, for images; torch.compile) and JAX (jit). cpu_ratios compare processor time, which other processes
disturb less.
ways_us has the time of each variant, or the reason why it did not run. gemm_share is the fraction of the machine's peak
of matrix
products, measured in the same run. rss_mb and peer_rss_mb are the peak memory of a separate process that only trains
the net, with
Pleiad and with PyTorch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from nn_more import MORE
from nn_nets import NETS

NETS |= MORE

RSS_STEPS = 10


def ours(case, batch, parameters, x, target):
    """Returns (steps(count), last loss)."""
    from pleiad import nn

    net = case.net(nn)
    for name, numbers in parameters.items():
        net.parameters[name][:] = numbers
    trainer = nn.Trainer(net, case.optimizer(nn), batch=batch)
    net.set_inputs({"x": x} if target is None else {"x": x, "target": target})
    step = trainer._core.step

    def steps(count):
        for _ in range(count):
            loss = step()
        return loss

    return steps


def by_torch(case, parameters, x, target, *, channels_last=False, compiled=False, fused=False, **more):
    import numpy as np
    import torch

    if hasattr(case, "torch_steps"):
        return case.torch_steps(torch, parameters, x, target, compiled=compiled, fused=fused, **more)
    model = case.model(torch)
    case.load(torch, model, parameters)
    x = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)) if case.images else x)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    target = torch.from_numpy(target if case.shape_of_target else target.astype("int64"))
    forward = torch.compile(model) if compiled else model
    optimizer = case.torch_optimizer(torch, model.parameters(), **({"fused": True} if fused else {}))

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            loss = case.torch_loss(torch, forward(x), target)
            loss.backward()
            optimizer.step()
        return loss.item()

    return steps


def by_jax(case, parameters, x, target):
    import jax

    if hasattr(case, "jax_steps"):
        return case.jax_steps(jax, parameters, x, target)
    place = {"p": {name: jax.numpy.array(numbers) for name, numbers in parameters.items()}}
    place["state"] = case.jax_state(jax, place["p"])
    x, target = jax.numpy.array(x), jax.numpy.array(target)

    @jax.jit
    def step(p, state):
        loss, gradient = jax.value_and_grad(lambda q: case.jax_loss(jax, q, x, target))(p)
        return loss, *case.jax_update(jax, p, gradient, state)

    # The memory of a step's inputs may be reused for its outputs.
    step = jax.jit(step.__wrapped__, donate_argnums=(0, 1))

    def steps(count):
        for _ in range(count):
            loss, place["p"], place["state"] = step(place["p"], place["state"])
        return float(loss)

    return steps


def gemm_peak():
    """Returns the products per second of large square matrices in float32, the best of PyTorch's and ours over some
    sizes.
    """
    import torch

    best = 0
    for n in (512, 1024, 1536):
        a, b = torch.rand(n, n), torch.rand(n, n)
        for _ in range(6):
            start = time.perf_counter()
            torch.mm(a, b)
            best = max(best, n**3 / (time.perf_counter() - start))
    return best


def timed(steps, count):
    """Returns the microseconds of a step, as wall time and as processor time."""
    start, used = time.perf_counter(), time.process_time()
    steps(count)
    return (time.perf_counter() - start) / count * 1e6, (time.process_time() - used) / count * 1e6


def start(name, batch):
    import numpy as np

    rng = np.random.default_rng(1)
    case = NETS[name][0]()
    return case, case.parameters(rng), *case.data(batch, rng)


def run(name, batch, threads, options):
    case, parameters, x, target = start(name, batch)
    twin = (
        case.twin() if hasattr(case, "twin") else case
    )  # a variant of the net without sampling, whose losses can be compared
    wishes = {
        "ours": lambda case: ours(case, batch, parameters, x, target),
        "eager": lambda case: by_torch(case, parameters, x, target),
        "fused": lambda case: by_torch(case, parameters, x, target, fused=True),
    }
    for way, word in getattr(case, "torch_ways", {}).items():
        wishes[way] = lambda case, word=word: by_torch(case, parameters, x, target, way=word)
    if case.images:
        wishes["channels_last"] = lambda case: by_torch(case, parameters, x, target, channels_last=True)
    if not options.quick:
        wishes["compile"] = lambda case: by_torch(case, parameters, x, target, compiled=True, fused=True, channels_last=case.images)  # fmt: skip
        wishes["jax"] = lambda case: by_jax(case, parameters, x, target)
    ways, why = {}, {}
    for way, make in wishes.items():
        try:
            steps = make(twin)
            losses = [steps(1) for _ in range(options.compare)]
            ways[way] = (steps if twin is case else make(case), losses)
        except Exception as problem:  # reported in the line
            if way in ("ours", "eager"):
                raise
            why[way] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"
    for way, (_, losses) in ways.items():
        for mine, theirs in zip(losses, ways["eager"][1]):
            if not abs(mine - theirs) <= 1e-4 * max(1.0, abs(theirs)):
                raise SystemExit(f"{name}: the losses of {way} and PyTorch's differ: {losses} and {ways['eager'][1]}")

    counts = {}
    for way, (steps, _) in ways.items():
        steps(2)
        counts[way] = max(1, int(options.block_ms * 1e3 / min(timed(steps, 1)[0] for _ in range(3))))
    times = {way: [] for way in ways}
    peak = 0
    for turn in range(options.rounds):
        peak = max(peak, gemm_peak()) if turn % 4 == 0 else peak
        for way in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            times[way].append(timed(ways[way][0], counts[way]))
    wall, cpu = ({way: [pair[i] for pair in pairs] for way, pairs in times.items()} for i in (0, 1))
    median = {way: statistics.median(values) for way, values in wall.items()}
    low, _, high = statistics.quantiles(wall["ours"], n=4, method="inclusive")

    def ratios(values):
        return {
            way: round(statistics.median(b / a for a, b in zip(values["ours"], values[way])), 3)
            for way in ways
            if way != "ours"
        }

    peers = ratios(wall)
    line = {
        "name": name,
        "threads": threads,
        "size": batch,
        "median_us": round(median["ours"], 1),
        "spread": round((high - low) / 2 / median["ours"], 3),
        "peer_us": round(median["eager"], 1),
        "ratio": peers["eager"],
        "ratio_best": min(peers.values()),
        "best": min(peers, key=peers.get),
        "ratios": peers,
        "cpu_us": round(statistics.median(cpu["ours"]), 1),
        "cpu_ratios": ratios(cpu),
        "gemm_share": round(batch * (3 * case.products - case.first) / (median["ours"] * 1e-6) / peak, 3),
        "ways_us": {way: round(value, 1) for way, value in median.items()} | why,
        "rss_mb": peak_rss(name, batch, "ours"),
        "peer_rss_mb": peak_rss(name, batch, "torch"),
    }
    print(json.dumps(line), flush=True)


def peak_rss(name, batch, who):
    """Returns the peak memory of a separate process."""
    done = subprocess.run([sys.executable, __file__, "--rss", who, name, str(batch)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return round(int(done.stdout) / 1024)


def train_alone(who, name, batch):
    case, parameters, x, target = start(name, batch)
    steps = ours(case, batch, parameters, x, target) if who == "ours" else by_torch(case, parameters, x, target)
    steps(RSS_STEPS)
    # getrusage would include the memory of the process that this one was forked from.
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(NETS))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=11, help="how often they take turns")
    parser.add_argument("--block-ms", type=float, default=150, help="how long a turn lasts")
    parser.add_argument("--compare", type=int, default=3, help="steps whose losses are compared")
    parser.add_argument("--quick", action="store_true", help="without torch.compile and JAX")
    parser.add_argument("--rss", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rss:
        return train_alone(options.rss[0], options.rss[1], int(options.rss[2]))
    if options.here is None:
        # Starts a process for each number of threads, on as many cores, so that every library creates as many threads.
        cores = sorted(os.sched_getaffinity(0))
        for threads in options.threads:
            env = {**os.environ, "OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
            words = [sys.executable, __file__, "--here", str(threads), *sys.argv[1:]]
            pinned = lambda: os.sched_setaffinity(0, cores[:threads])  # noqa: E731
            if subprocess.run(words, env=env, preexec_fn=pinned).returncode:
                return 1
        return 0
    import torch

    torch.set_num_threads(options.here)
    for name, (_, batches) in NETS.items():
        if options.only in (None, name):
            for batch in batches:
                run(name, batch, options.here, options)
    return 0


sys.exit(main())

"""Trains the same nets by Pleiad and by PyTorch, in turns, in one process: one JSON line each, ratio = PyTorch eager / ours.

make bench-nn                                all of it, with one thread and with two
.venv/bin/python bench/nn.py --only mlp --threads 2 --rounds 5

Before anything is timed, both take the same weights and the same batch, and the losses of the first steps are compared.
ratio_best is against the fastest way of PyTorch that was tried (eager, channels-last where there are images, torch.compile
with --compile). gemm_share is the share of this machine's measured peak of matrix products.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import time

import numpy as np
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))


def library():
    lib = ctypes.CDLL(str(BUILD / "lib" / "libbench_nn.so"))
    lib.bench_new.restype = ctypes.c_void_p
    lib.bench_new.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_double,
        ctypes.c_double,
        ctypes.c_int,
    ]
    lib.bench_delete.argtypes = [ctypes.c_void_p]
    lib.bench_tensor.restype = ctypes.c_void_p
    lib.bench_tensor.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    lib.bench_steps.restype = ctypes.c_double
    lib.bench_steps.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return lib


class Ours:
    def __init__(self, lib, case, batch, threads):
        self.lib = lib
        self.handle = lib.bench_new(case.text.encode(), batch, case.rule.encode(), case.rate, case.momentum, threads)
        if not self.handle:
            raise SystemExit("the net could not be made")

    def tensor(self, name, is_input, kind=ctypes.c_float):
        count = ctypes.c_int64()
        address = self.lib.bench_tensor(self.handle, name.encode(), int(is_input), ctypes.byref(count))
        if not address:
            raise SystemExit(f"{name} is not in the net")
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count.value,))

    def steps(self, count):
        return self.lib.bench_steps(self.handle, count)

    def close(self):
        self.lib.bench_delete(self.handle)


class Stanh(nn.Module):
    def forward(self, x):
        return 1.7159047 * torch.tanh(0.66666667 * x)


class Case:
    """A net in both languages. `pairs` names which parameter of ours is which of PyTorch's, and how its axes lie."""

    rule, rate, momentum = "sgd", 0.01, 0.0
    images = False
    target = "label"

    def loss(self, out, target):
        return nn.functional.cross_entropy(out, target)

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=self.rate, momentum=self.momentum)

    def pairs(self, model):
        names = [n for n, _ in model.named_parameters()]
        ours = [f"{line.split()[0]}/{kind}" for line in self.layers for kind in ("weight", "bias")]
        return [(a, dict(model.named_parameters())[b], None) for a, b in zip(ours, names, strict=True)]


class Mlp(Case):
    def __init__(self, widths, activation, rate):
        module, self.rate = {"stanh": Stanh, "relu": nn.ReLU}[activation], rate
        self.layers = []
        parts = []
        for i, (a, b) in enumerate(zip(widths, widths[1:], strict=False)):
            last = i == len(widths) - 2
            self.layers.append(f"fc{i} dense out={b} activation={'linear' if last else activation}")
            parts += [nn.Linear(a, b)] + ([] if last else [module()])
        self.text = "\n".join(
            ["label label", f"input x {widths[0]}", *self.layers, f"loss softmax_loss from=fc{len(widths) - 2},label"]
        )
        self.model = lambda: nn.Sequential(*parts)
        self.shape, self.classes = (widths[0],), widths[-1]
        self.products = sum(a * b for a, b in zip(widths, widths[1:], strict=False))
        self.first = widths[0] * widths[1]


class AutoEncoder(Mlp):
    rule, target = "adagrad", "input"

    def __init__(self):
        widths = [784, 1000, 500, 250, 30, 250, 500, 1000, 784]
        super().__init__(widths, "relu", 0.01)
        self.layers = [line.replace("relu", "sigmoid") for line in self.layers]
        parts = []
        for a, b in zip(widths, widths[1:], strict=False):
            parts += [nn.Linear(a, b), nn.Sigmoid()]
        parts.pop()
        self.model = lambda: nn.Sequential(*parts)
        self.text = "\n".join(["input t 784", "input x 784", *self.layers, "loss euclidean_loss from=fc7,t"])

    def loss(self, out, target):
        return 0.5 * ((out - target) ** 2).sum() / out.shape[0]

    def optimizer(self, parameters):
        return torch.optim.Adagrad(parameters, lr=self.rate)


class Flat(nn.Module):
    def forward(self, x):
        return x.flatten(1)


class Cnn(Case):
    images = True
    shape, classes = (3, 32, 32), 10
    rate = 0.001

    def __init__(self):
        self.text = "\n".join(
            [
                "label label",
                "input x 32 32 3",
                "conv1 convolution filters=32 kernel_h=5 kernel_w=5 pad=2 from=x",
                "pool1 pooling type=max kernel=3 stride=2",
                "relu1 activation function=relu",
                "norm1 lrn size=3 alpha=0.00005 beta=0.75",
                "conv2 convolution filters=32 kernel_h=5 kernel_w=5 pad=2 activation=relu",
                "pool2 pooling type=average kernel=3 stride=2",
                "norm2 lrn size=3 alpha=0.00005 beta=0.75",
                "conv3 convolution filters=64 kernel_h=5 kernel_w=5 pad=2 activation=relu",
                "pool3 pooling type=average kernel=3 stride=2",
                "fc dense out=10",
                "loss softmax_loss from=fc,label",
            ]
        )
        parts = [
            nn.Conv2d(3, 32, 5, padding=2),
            nn.MaxPool2d(3, 2),
            nn.ReLU(),
            nn.LocalResponseNorm(3, 5e-5, 0.75),
            nn.Conv2d(32, 32, 5, padding=2),
            nn.ReLU(),
            nn.AvgPool2d(3, 2),
            nn.LocalResponseNorm(3, 5e-5, 0.75),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.AvgPool2d(3, 2),
            Flat(),
            nn.Linear(576, 10),
        ]
        self.model = lambda: nn.Sequential(*parts)
        self.first = 32 * 32 * 32 * 75
        self.products = self.first + 15 * 15 * 32 * 800 + 7 * 7 * 64 * 800 + 5760

    def pairs(self, model):
        p = dict(model.named_parameters())
        flat = lambda w: w.reshape(10, 64, 3, 3).permute(0, 2, 3, 1)  # noqa: E731
        image = lambda w: w.permute(0, 2, 3, 1)  # noqa: E731
        out = []
        for name, index in (("conv1", 0), ("conv2", 4), ("conv3", 8), ("fc", 12)):
            out.append((f"{name}/weight", p[f"{index}.weight"], flat if name == "fc" else image))
            out.append((f"{name}/bias", p[f"{index}.bias"], None))
        return out


CASES = {
    "mlp": (lambda: Mlp([784, 2500, 2000, 1500, 1000, 500, 10], "stanh", 0.01), [64, 1000]),
    "small": (lambda: Mlp([784, 128, 10], "relu", 0.05), [32]),
    "autoencoder": (AutoEncoder, [100]),
    "cnn": (Cnn, [100]),
}


def stepper(case, model, x, target, compiled=False):
    forward = torch.compile(model) if compiled else model
    optimizer = case.optimizer(model.parameters())

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            loss = case.loss(forward(x), target)
            loss.backward()
            optimizer.step()
        return loss.item()

    return steps


def gemm_peak(threads):
    """Products a second of a large matrix product, the best of PyTorch's over some sizes."""
    best = 0
    for n in (512, 1024, 1536):
        a, b = torch.rand(n, n), torch.rand(n, n)
        torch.mm(a, b)
        for _ in range(5):
            start = time.perf_counter()
            torch.mm(a, b)
            best = max(best, n**3 / (time.perf_counter() - start))
    return best


def timed(steps, count):
    start = time.perf_counter()
    steps(count)
    return (time.perf_counter() - start) / count * 1e6


def run(lib, name, batch, threads, options):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    case = CASES[name][0]()
    model = case.model()
    if case.target == "input":  # wide nets of sigmoids need larger weights to pass anything on
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    x = torch.rand(batch, *case.shape)
    target = x.clone() if case.target == "input" else torch.randint(0, case.classes, (batch,))

    ours = Ours(lib, case, batch, threads)
    for own, parameter, axes in case.pairs(model):
        value = parameter.detach() if axes is None else axes(parameter.detach())
        ours.tensor(own, False)[:] = value.contiguous().numpy().ravel()
    image = x.permute(0, 2, 3, 1) if case.images else x
    ours.tensor("x", True)[:] = image.contiguous().numpy().ravel()
    if case.target == "input":
        ours.tensor("t", True)[:] = target.numpy().ravel()
    else:
        ours.tensor("label", True, ctypes.c_int32)[:] = target.numpy().astype(np.int32)

    ways = {"eager": stepper(case, model, x, target)}
    for step in range(options.compare):
        mine, theirs = ours.steps(1), ways["eager"](1)
        if not abs(mine - theirs) <= 1e-4 * max(1.0, abs(theirs)):
            raise SystemExit(f"{name}: the losses differ at step {step}: {mine} and PyTorch's {theirs}")

    def fresh(change=lambda m: m):
        other = CASES[name][0]().model()
        other.load_state_dict(start)
        return change(other)

    if case.images:
        last = fresh(lambda m: m.to(memory_format=torch.channels_last))
        ways["channels_last"] = stepper(case, last, x.contiguous(memory_format=torch.channels_last), target)
    if options.compile:
        ways["compile"] = stepper(case, fresh(), x, target, compiled=True)
    ways = {"ours": ours.steps, **ways}
    counts = {}
    for way, steps in ways.items():
        steps(2)
        once = min(timed(steps, 1) for _ in range(3))
        counts[way] = max(1, int(options.block_ms * 1e3 / once))
    times = {way: [] for way in ways}
    for turn in range(options.rounds):
        for way in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            times[way].append(timed(ways[way], counts[way]))
    ours.close()
    median = {way: statistics.median(values) for way, values in times.items()}
    quarter = sorted(times["ours"])
    spread = (quarter[-1 - len(quarter) // 4] - quarter[len(quarter) // 4]) / 2 / median["ours"]
    ratio = statistics.median(b / a for a, b in zip(times["ours"], times["eager"], strict=True))
    best = min(median[way] for way in median if way != "ours")
    work = batch * (3 * case.products - case.first)
    line = {
        "name": name,
        "threads": threads,
        "size": batch,
        "median_us": round(median["ours"], 1),
        "spread": round(spread, 3),
        "peer_us": round(median["eager"], 1),
        "ratio": round(ratio, 3),
        "ratio_best": round(best / median["ours"], 3),
        "gemm_share": round(work / (median["ours"] * 1e-6) / gemm_peak(threads), 3),
        "ways_us": {way: round(value, 1) for way, value in median.items()},
    }
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=11, help="how often ours and PyTorch take turns")
    parser.add_argument("--block-ms", type=float, default=150, help="how long a turn lasts")
    parser.add_argument(
        "--compare", type=int, default=3, help="steps whose losses are compared before anything is timed"
    )
    parser.add_argument("--compile", action="store_true", help="torch.compile too; needs a C++ compiler")
    options = parser.parse_args()
    lib = library()
    for name, (_, batches) in CASES.items():
        if options.only in (None, name):
            for batch in batches:
                for threads in options.threads:
                    run(lib, name, batch, threads, options)


main()

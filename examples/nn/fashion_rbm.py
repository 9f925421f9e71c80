"""Restricted Boltzmann machines 784-1000-500-250-30 on Fashion-MNIST. They are trained one after the other, unrolled into an
auto-encoder and trained further. For comparison the same net is trained from random weights for as long. Writes the curves of
the reconstruction error and a picture of reconstructions. Runs in one process or under `pleiad launch -n 2`."""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion  # noqa: E402
import numpy  # noqa: E402

import pleiad  # noqa: E402
from pleiad import nn  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pretrain", type=int, default=4, help="number of epochs for each machine")
parser.add_argument("--epochs", type=int, default=6, help="number of epochs for the auto-encoder")
parser.add_argument(
    "--against",
    type=int,
    help="number of epochs for the net from random weights; by default it trains for as long as the other",
)
parser.add_argument("--samples", type=int, default=60000, help="number of training images to use")
parser.add_argument("--tied", action="store_true", help="share the encoder's weights with the decoder")
parser.add_argument("--out", default="out", type=pathlib.Path, help="folder for the pictures")
options = parser.parse_args()

BATCH, RATE = 100, nn.SGD(0.02, momentum=0.9)


def since(start):
    """Returns the elapsed seconds, equal on all ranks, so that they stop together."""
    return float(session.all_reduce(numpy.array([time.perf_counter() - start]), "mean")[0])


def train(net, images, test, *, seconds=None, epochs=10**6, before=0.0):
    """Trains for `epochs` epochs or `seconds` seconds. Returns (seconds, squared error of a test image) for each epoch."""
    trainer = nn.Trainer(net, RATE, batch=BATCH)
    points = [(before, trainer.evaluate(test)["se"])]
    spent = before
    while epochs > 0 and (seconds is None or spent < seconds):
        start = time.perf_counter()
        trainer.fit(images, epochs=1, progress=False, seed=len(points))
        spent += since(start)
        points.append((spent, trainer.evaluate(test)["se"]))
        epochs -= 1
    return trainer, points


def draw(curves, machines, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for index, history in enumerate(machines):
        values = [record["se"] for record in history.of("train")]
        left.plot(
            range(1, len(values) + 1), numpy.array(values) / values[0], "o-", label=f"machine {index + 1}", markersize=4
        )
    left.set(title="machines: squared error, the first epoch's = 1", xlabel="epoch")
    for (name, points), colour in zip(curves.items(), nn.plot.COLOURS):
        right.plot(*zip(*points), "o-", color=colour, label=name, markersize=4)
    right.set(title="auto-encoder: squared error of a test image", xlabel="seconds, machines included", yscale="log")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


with pleiad.init() as session:
    images, _, test, _ = fashion.load(options.samples)
    stack = nn.RBMStack(784, [1000, 500, 250, 30], tied=options.tied, name="fashion_rbm")
    random = stack.unrolled()
    start = time.perf_counter()
    machines = []
    for index in range(len(stack)):
        net = stack.stage(index)
        # Gaussian code units need a smaller learning rate.
        rate = 0.1 if index + 1 < len(stack) else 0.002
        trainer = nn.Trainer(net, nn.SGD(rate, momentum=0.5, weight_decay=0.0002), batch=BATCH)
        machines.append(trainer.fit(images, epochs=options.pretrain, progress=False))
        stack.take(index, net)
        if session.rank == 0:
            values = [record["se"] for record in machines[-1].of("train")]
            print(f"machine {index + 1}: squared error {values[0]:.2f} -> {values[-1]:.2f}", flush=True)
    spent = since(start)
    trainer, pretrained = train(stack.unrolled(), images, test, epochs=options.epochs, before=spent)
    until = {"epochs": options.against} if options.against else {"seconds": pretrained[-1][0]}
    _, from_random = train(random, images, test, **until)
    shown = trainer.predict(test[:16], "dec1")
    if session.rank == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(
            {"pre-trained": pretrained, "from random weights": from_random},
            machines,
            options.out / "fashion_rbm_curves.png",
        )
        pairs = numpy.concatenate([test[:16], shown.clip(0, 1)]).reshape(2, 16, 28, 28)
        rows = numpy.concatenate([pairs[:, :8], pairs[:, 8:]]).reshape(32, 28, 28)
        nn.plot.images(rows, options.out / "fashion_rbm_reconstructions.png", columns=8)
        print(f"squared error of a test image: pre-trained {pretrained[-1][1]:.3f} after {pretrained[-1][0]:.0f} s, "
              f"from random weights {from_random[-1][1]:.3f} after {from_random[-1][0]:.0f} s; pictures in {options.out}")  # fmt: skip

"""A multilayer perceptron on Fashion-MNIST in a few lines. Runs in one process or under `pleiad launch -n 2`."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion  # noqa: E402

import pleiad  # noqa: E402
from pleiad import nn  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--samples", type=int, default=60000, help="number of training images to use")
parser.add_argument("--out", default="out", type=pathlib.Path, help="folder for the pictures")
options = parser.parse_args()

with pleiad.init() as session:
    images, labels, test_images, test_labels = fashion.load(options.samples)
    layers = [nn.Dense(512, "relu", weight="he"), nn.Dropout(0.2), nn.Dense(10)]
    net = nn.Sequential(layers, input=(784,), loss=nn.SoftmaxLoss(), name="fashion_mlp")
    steps = options.epochs * (len(images) // 100)
    trainer = nn.Trainer(net, nn.Adam(), batch=100, schedule=nn.schedules.linear(0.001, 0.0001, steps))
    history = trainer.fit(images, labels, epochs=options.epochs, validation=(test_images, test_labels))
    last = trainer.evaluate(test_images, test_labels)
    if session.rank == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        history.plot(options.out / "fashion_mlp_curves.png")
        nn.plot.filters(net, "dense1", options.out / "fashion_mlp_filters.png", side=(28, 28))
        print(f"test loss {last['loss']:.4f}, accuracy {last['accuracy']:.2%}; pictures in {options.out}")

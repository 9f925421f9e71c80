"""A small convolutional net on Fashion-MNIST, in one process or in two with the same result.

    python examples/nn/fashion_cnn.py
    pleiad launch -n 2 python examples/nn/fashion_cnn.py

Rank 0 shows progress and writes the curves, the first layer's filters and a table of the history to --out.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion  # noqa: E402

import pleiad  # noqa: E402
from pleiad import nn  # noqa: E402


def build(seed=1):
    net = nn.Net("fashion_cnn", seed=seed)
    x, label = net.input((28, 28, 1), name="image"), net.input((), name="label", dtype="int32")
    x = nn.Convolution(16, 5, pad=2, activation="relu", name="conv1")(x)
    x = nn.Pooling(2, name="pool1")(x)
    x = nn.Convolution(32, 5, pad=2, activation="relu", name="conv2")(x)
    x = nn.Pooling(2, name="pool2")(x)
    x = nn.Dense(128, activation="relu", weight="he", name="hidden")(x)
    nn.SoftmaxLoss(name="loss")(nn.Dense(10, weight="he", name="scores")(x), label)
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, default=60000, help="number of training images to use")
    parser.add_argument("--batch", type=int, default=64, help="batch size of all processes together")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--data", default=fashion.FOLDER, help="folder of the IDX files")
    parser.add_argument("--out", default="out", type=pathlib.Path, help="folder for the pictures")
    options = parser.parse_args()

    session = pleiad.init()
    images, labels, test_images, test_labels = fashion.load(options.samples, options.data)
    net = build()
    steps = options.epochs * (len(images) // options.batch)
    schedule = nn.schedules.linear(options.rate, options.rate / 20, max(steps, 1))
    trainer = nn.Trainer(net, nn.SGD(momentum=0.9), batch=options.batch, schedule=schedule, check_finite=True)
    if session.rank == 0:
        net.summary()
    history = trainer.fit(
        images - 0.3, labels, epochs=options.epochs, validation=(test_images - 0.3, test_labels), log_every=100
    )
    last = trainer.evaluate(test_images - 0.3, test_labels)
    if session.rank == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        history.plot(options.out / "fashion_cnn_curves.png")
        nn.plot.filters(net, "conv1", options.out / "fashion_cnn_filters.png")
        history.write_csv(options.out / "fashion_cnn.csv")
        print(f"test loss {last['loss']:.4f}, accuracy {last['accuracy']:.2%}; pictures in {options.out}")
    session.shutdown()


main()

"""What the scripts of SINGA's document learn, as pictures: curves of the perceptron and of the CNN, and digits that a machine and
the auto-encoder draw again.

    python examples/singa/show.py out/singa_show [--steps 1000] [--machine-steps 600] [--code-steps 600]

The folder gets curves.png, pictures.png and results.json, and the data and checkpoints of the runs.
"""

import argparse
import json
import os
import pathlib

import numpy

from pleiad import nn
from singa.datasets import cifar10, mnist
from singa.model import (
    LRN2D,
    RBM,
    SGD,
    Activation,
    AdaGrad,
    Autoencoder,
    AvgPooling2D,
    Cluster,
    Convolution2D,
    Dense,
    Energy,
    MaxPooling2D,
    Sequential,
)

HIDDEN = [1000, 500, 250, 30]
INK, FAINT, BLUE, RUST = "#22272e", "#d9dee5", "#2563a8", "#b4532a"


def perceptron(steps):
    train, test, workspace = mnist.load_data()
    m = Sequential("mlp", [])
    for n in [2500, 2000, 1500, 1000, 500]:
        m.add(Dense(n, init="uniform", activation="stanh"))
    m.add(Dense(10, init="uniform", activation="softmax"))
    sgd = SGD(lr=0.001, lr_type="step")
    m.compile(loss="categorical_crossentropy", optimizer=sgd, cluster=Cluster(workspace))
    m.fit(train, nb_epoch=steps, with_test=True, disp_freq=max(1, steps // 40))
    return m.evaluate(test, batch_size=100, test_steps=20, test_freq=max(1, steps // 20))


def images(steps):
    train, test, workspace = cifar10.load_data()
    m = Sequential("cnn", [])
    m.add(Convolution2D(32, 5, 1, 2, w_std=0.0001, b_lr=2))
    m.add(MaxPooling2D(pool_size=(3, 3), stride=2))
    m.add(Activation("relu"))
    m.add(LRN2D(3, alpha=0.00005, beta=0.75))
    m.add(Convolution2D(32, 5, 1, 2, b_lr=2))
    m.add(Activation("relu"))
    m.add(AvgPooling2D(pool_size=(3, 3), stride=2))
    m.add(LRN2D(3, alpha=0.00005, beta=0.75))
    m.add(Convolution2D(64, 5, 1, 2))
    m.add(Activation("relu"))
    m.add(AvgPooling2D(pool_size=(3, 3), stride=2))
    m.add(Dense(10, w_wd=250, b_lr=2, b_wd=0, activation="softmax"))
    sgd = SGD(decay=0.004, lr_type="manual", step=(0, 60000, 65000), step_lr=(0.001, 0.0001, 0.00001))
    m.compile(updater=sgd, cluster=Cluster(workspace))
    m.fit(train, nb_epoch=steps, with_test=True, disp_freq=max(1, steps // 40))
    return m.evaluate(test, 100, test_steps=20, test_freq=max(1, steps // 20))


def machine(i, steps):
    """Machine i, on top of those before it."""
    train, _, workspace = mnist.load_data(nb_rbm=i)
    m = Energy(f"rbm{i}", [])
    m.add(RBM(HIDDEN[:i], w_std=0.1, b_wd=0, sampling="gaussian" if i == 4 else None))
    rate = 0.001 if i == 4 else 0.1
    m.compile(optimizer=SGD(lr=rate, decay=0.0002, momentum=0.8), cluster=Cluster(workspace))
    m.fit(train, alg="cd", nb_epoch=steps, disp_freq=max(1, steps // 10))
    return m


def auto_encoder(steps):
    train, _, workspace = mnist.load_data(nb_rbm=5)
    m = Sequential("autoencoder", [])
    m.add(Autoencoder(HIDDEN, out_dim=784, activation="sigmoid", param_share=True))
    m.compile(loss="mean_squared_error", optimizer=AdaGrad(lr=0.01), cluster=Cluster(workspace))
    m.fit(train, alg="bp", nb_epoch=steps, disp_freq=max(1, steps // 10))
    return m


def drawn_again(m, rows):
    """What a machine over pixels makes of images: up to its hidden units and down again."""
    weights = m.get_weights()
    weight = next(each for each in weights.values() if each.ndim == 2 and 1 not in each.shape)
    biases = [each.reshape(-1) for each in weights.values() if each is not weight]
    visible = next(each for each in biases if each.size == 784)
    hidden = next(each for each in biases if each.size == weight.size // 784)
    weight = weight if weight.shape[1] == 784 else weight.T

    def sigmoid(x):
        return 1 / (1 + numpy.exp(-x))

    return sigmoid(sigmoid(rows @ weight.T + hidden) @ weight + visible)


def points(result, phase, metric):
    pairs = [(step, row[metric]) for step, rows in result.items() for row in rows if row["phase"] == phase]
    return [step for step, _ in pairs], [value for _, value in pairs]


def draw_curves(results, path):
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, 2, figsize=(10, 7), dpi=120, layout="constrained")
    for row, (title, result) in zip(rows, results.items(), strict=True):
        for axes, metric, name in zip(row, ("acc", "loss"), ("accuracy", "loss"), strict=True):
            for phase, color in (("train", BLUE), ("test", RUST)):
                steps, values = points(result, phase, metric)
                axes.plot(steps, values, color=color, linewidth=1.8, label=phase)
            axes.set_title(f"{title}: {name}", loc="left", fontweight="bold", color=INK, fontsize=10)
            axes.set_xlabel("step")
            axes.grid(color=FAINT)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False)
    figure.savefig(path)


def draw_pictures(rows, path):
    from matplotlib import pyplot

    count = len(next(iter(rows.values())))
    figure, grid = pyplot.subplots(len(rows), count, figsize=(count, 1.25 * len(rows)), dpi=120, layout="constrained")
    for line, (title, pictures) in zip(grid, rows.items(), strict=True):
        for axes, picture in zip(line, pictures, strict=True):
            axes.imshow(picture.reshape(28, 28), cmap="gray", vmin=0, vmax=1)
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_title(title, loc="left", fontsize=9, color=INK).set_in_layout(False)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--machine-steps", type=int, default=600)
    parser.add_argument("--code-steps", type=int, default=600)
    options = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    results = {"Perceptron, MNIST's kind": perceptron(options.steps), "CNN, CIFAR-10's kind": images(options.steps)}
    draw_curves(results, "curves.png")
    machines = [machine(i, options.machine_steps) for i in (1, 2, 3, 4)]
    coder = auto_encoder(options.code_steps)
    rows = nn.open_store("kvfile", "examples/mnist/test_data.bin").read("data", range(10)).reshape(10, 784) / 255
    pictures = {
        "test images": rows,
        f"machine 1 after {options.machine_steps} steps": drawn_again(machines[0], rows),
        f"auto-encoder, 30 numbers an image, after {options.code_steps} steps": coder.predict(rows),
    }
    draw_pictures(pictures, "pictures.png")
    last = {name: {"test_acc": points(each, "test", "acc")[1][-1]} for name, each in results.items()}
    last |= {
        f"squared error, {each}": float(((again - rows) ** 2).sum(axis=1).mean()) for each, again in pictures.items()
    }
    pathlib.Path("results.json").write_text(json.dumps(last, indent=1) + "\n")
    print(json.dumps(last))


if __name__ == "__main__":
    main()

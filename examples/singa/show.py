"""Plots what the scripts of SINGA's documentation learn: curves of the perceptron and the CNN, and digits that an RBM and the
auto-encoder reconstruct.

    python examples/singa/show.py out/singa_show [--steps 1000] [--image-steps 4000] [--machine-steps 600] [--code-steps 600]

Runs the scripts of compat/singa with these numbers of steps. Writes curves.png, pictures.png and results.json to the folder, and
the data and checkpoints of the runs.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy

from pleiad import nn
from singa.model import Model

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "compat" / "singa" / "tool" / "python" / "examples"
INK, FAINT, BLUE, RUST = "#22272e", "#d9dee5", "#2563a8", "#b4532a"
MOMENTUM = ("SGD(decay=0.004,", "SGD(momentum=0.9, decay=0.004,")  # as in the script of SINGA 0.3


def script(name, steps, *changes):
    """Runs a script for `steps` steps with forty reports of training and twenty tests. Returns its model and results. Each change
    is a part of the script's text and its replacement."""
    text = (SCRIPTS / name).read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f'{name}: expected "{old}" once; found it {text.count(old)} times')
        text = text.replace(old, new)
    fit, evaluate = Model.fit, Model.evaluate

    def shorter(self, *words, **fields):
        return fit(self, *words, **{**fields, "nb_epoch": steps, "disp_freq": max(1, steps // 40)})

    def tested(self, data, *_, **__):
        return evaluate(self, data, 100, test_steps=20, test_freq=max(1, steps // 20))

    Model.fit, Model.evaluate = shorter, tested
    try:
        names = {"__name__": "__main__"}
        exec(compile(text, SCRIPTS / name, "exec"), names)  # noqa: S102 - a file of the project's own
    finally:
        Model.fit, Model.evaluate = fit, evaluate
    return names["m"], names["m"].result


def drawn_again(m, rows):
    """Returns an RBM's reconstruction of images: up to its hidden units and down again."""
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

    figure, rows = pyplot.subplots(len(results), 2, figsize=(10, 3.4 * len(results)), dpi=120, layout="constrained")
    for row, (title, result) in zip(rows, results.items(), strict=True):
        for axes, metric, name in zip(row, ("acc", "loss"), ("accuracy", "loss"), strict=True):
            for phase, color in (("train", BLUE), ("test", RUST)):
                steps, values = points(result, phase, metric)
                axes.plot(steps, values, color=color, linewidth=1.8, label=phase)
            axes.set_title(f"{title}: {name}", loc="left", fontweight="bold", color=INK, fontsize=9)
            axes.set_xlabel("step")
            axes.set_ylim(0, 1 if metric == "acc" else None)
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
        label = line[0].text(0, 1.08, title, transform=line[0].transAxes, fontsize=9, color=INK)
        label.set_in_layout(False)  # the layout ignores the label's width, so that the pictures stay side by side
    figure.savefig(path)


def source(folder):
    """Returns the name of the dataset, such as "fashion-mnist" from "fashion-mnist: /usr/share/..."."""
    return pathlib.Path(folder, "source.txt").read_text().partition(":")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1000, help="number of steps for the perceptron")
    parser.add_argument("--image-steps", type=int, default=4000, help="number of steps for the CNN")
    parser.add_argument("--machine-steps", type=int, default=600, help="number of steps for each RBM")
    parser.add_argument("--code-steps", type=int, default=600, help="number of steps for the auto-encoder")
    options = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    sys.path.append(str(SCRIPTS.parent))  # where the scripts find examples.datasets
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    perceptron = script("mnist_mlp.py", options.steps)[1]
    results = {
        f"mnist_mlp.py, {source('examples/mnist')}": perceptron,
        "cifar10_cnn.py": script("cifar10_cnn.py", options.image_steps)[1],
        "cifar10_cnn.py, with momentum 0.9": script("cifar10_cnn.py", options.image_steps // 4, MOMENTUM)[1],
    }
    results = {
        f"{name}, {source('examples/cifar10')}" if "cifar10" in name else name: each for name, each in results.items()
    }
    draw_curves(results, "curves.png")
    machines = [script(f"mnist_rbm{i}.py", options.machine_steps)[0] for i in (1, 2, 3, 4)]
    coder = script("mnist_ae.py", options.code_steps)[0]
    rows = nn.open_store("kvfile", "examples/mnist/test_data.bin").read("data", range(10)).reshape(10, 784) / 255
    pictures = {
        "test images": rows,
        f"machine 1 after {options.machine_steps} steps": drawn_again(machines[0], rows),
        f"auto-encoder, 30 numbers an image, after {options.code_steps} steps": coder.predict(rows),
    }
    draw_pictures(pictures, "pictures.png")
    last = {}
    for name, each in results.items():
        steps, values = points(each, "test", "acc")
        last[name] = {"steps": steps[-1], "test_acc": values[-1]}
    last |= {
        f"squared error, {each}": float(((again - rows) ** 2).sum(axis=1).mean()) for each, again in pictures.items()
    }
    pathlib.Path("results.json").write_text(json.dumps(last, indent=1) + "\n")
    print(json.dumps(last))


if __name__ == "__main__":
    main()

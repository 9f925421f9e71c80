"""Runs an example with 1, 2 and 4 workers and draws its test loss against time.

    python examples/plot_workers.py examples/theano/logistic_regression.py out/loss.png --epochs 5

Arguments after the name of the picture are passed to the example. --python is the interpreter with the example's framework.
"""

import argparse
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

COLORS = {1: "#22272e", 2: "#2563a8", 4: "#b4532a"}


def run(python, workers, words, curve):
    """Runs the example and returns its learning curve as (seconds, loss)."""
    flags = ["--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    launch = (
        [] if workers == 1 else [shutil.which("mpirun") or sys.exit("mpirun is not on the PATH"), "-n", workers, *flags]
    )
    command = [str(word) for word in [*launch, python, *words, "--curve", curve]]
    # One thread per worker, so that more workers use more cores.
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    with open(curve, newline="") as file:
        rows = list(csv.DictReader(file))
    return [float(row["seconds"]) for row in rows], [float(row["loss"]) for row in rows]


def draw(curves, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), dpi=150, layout="constrained")
    for workers, (seconds, loss) in curves.items():
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        axes.plot(seconds, loss, color=COLORS[workers], linewidth=2, marker="o", markersize=4, label=label)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("loss on the test images")
    axes.grid(color="#d9dee5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="Python interpreter that runs the example")
    parser.add_argument("example")
    parser.add_argument("png")
    options, words = parser.parse_known_args()
    curves = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in COLORS:
            print(f"{workers} of {max(COLORS)} workers", flush=True)
            try:
                curves[workers] = run(options.python, workers, [options.example, *words], f"{folder}/{workers}.csv")
            except subprocess.CalledProcessError as problem:
                sys.exit(f"plot_workers: with {workers} workers the example ended with code {problem.returncode}")
    name = pathlib.Path(options.example)
    draw(curves, options.png, f"{name.parent.name}/{name.name} on Fashion-MNIST")
    print(f"wrote {options.png}")


if __name__ == "__main__":
    main()

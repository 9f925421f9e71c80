#!/usr/bin/env python3
"""Draws the README's picture: the parts of a job and their hosts, and the test accuracy of two runs of fashion_softmax.

    tools/overview_picture.py ONE.csv FOUR.csv docs/images/overview.png

ONE.csv and FOUR.csv are the curves that fashion_softmax wrote with one process and with four (docs/benchmarks.md).
"""

import io
import sys

from plot_curve import BLUE, FAINT, INK, RUST, read_curve

GREY = "#57606a"
DOORS = ["PyTorch, JAX,\nKeras 3", "pleiad.nn:\nC++, Python", "Multiverso: C,\nC++, Python, Lua", "SINGA jobs,\nscripts", "neon YAML\nfiles"]  # fmt: skip


def draw_parts(axes):
    """Draws the front doors above two hosts with two ranks each."""
    from matplotlib.patches import FancyBboxPatch

    def box(x, y, width, height, text="", face="white", edge=FAINT, **style):
        shape = "round,pad=0,rounding_size=1.6"
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, fc=face, ec=edge, lw=1.2))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", **style)

    def arrow(begin, end, style="-|>", color=INK):
        axes.annotate("", end, begin, arrowprops={"arrowstyle": style, "color": color, "lw": 1.2})

    axes.set_xlim(0, 100)
    axes.set_ylim(0, 78)
    axes.axis("off")
    axes.text(0, 74, "One program, started on every rank", fontsize=9.5, fontweight="bold")
    for i, name in enumerate(DOORS):
        box(i * 20.2, 59, 19.2, 11.5, name, fontsize=7.2)
    for host, left in (("host A", 0), ("host B", 52)):
        box(left, 6, 48, 44, face="#f6f8fa")
        axes.text(left + 2, 45.5, host, fontsize=8.5, color=GREY)
        arrow((left + 24, 59), (left + 24, 50))
        for i in range(2):
            middle = left + 13.5 + 21 * i
            rank = f"rank {i + (2 if left else 0)}"
            box(middle - 9.5, 33, 19, 10, rank, edge=BLUE, fontweight="bold", color=BLUE)
            arrow((middle - 3.5, 33), (middle - 3.5, 26))
            arrow((middle + 3.5, 26), (middle + 3.5, 33))
            axes.text(middle - 4.5, 29.3, "add", fontsize=7.5, ha="right", va="center")
            axes.text(middle + 4.5, 29.3, "get", fontsize=7.5, va="center")
        box(left + 4, 10, 40, 16, face="#e6eef7", edge=BLUE)
        axes.text(left + 24, 20.4, "table shards in shared memory", fontsize=8.3, ha="center", va="center")
        axes.text(
            left + 24, 14.6, "values, state of the update rule", fontsize=7.6, ha="center", va="center", color=GREY
        )
    arrow((44, 18), (56, 18), "<|-|>", RUST)
    axes.plot([50, 50], [4, 15.5], color=RUST, lw=0.7)
    axes.text(50, 1, "encrypted messages between hosts", fontsize=8, ha="center", color=RUST)


def draw_curves(axes, files):
    for path, name, color in zip(files, ("1 process", "4 processes"), (RUST, BLUE)):
        curve = read_curve(path)
        thousands = [examples / 1000 for examples in curve["examples"]]
        percent = [100 * accuracy for accuracy in curve["accuracy"]]
        axes.plot(thousands, percent, color=color, lw=1.8, marker="o", ms=3, label=name)
    axes.set_ylim(60, 88)
    axes.set_xlabel("thousand images trained on")
    axes.set_ylabel("test accuracy, %")
    axes.grid(color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
    axes.legend(frameon=False, loc="lower right")
    title = "Softmax regression on Fashion-MNIST\nthrough one asynchronous table"
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")


def main():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    if len(sys.argv) != 4:
        sys.exit(__doc__)
    pyplot.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10.5, 3.9), width_ratios=[1.35, 1], layout="constrained", dpi=110
    )
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.06)
    draw_parts(left)
    draw_curves(right, sys.argv[1:3])
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    Image.open(picture).convert("RGB").quantize(64).save(sys.argv[3], optimize=True)


if __name__ == "__main__":
    main()

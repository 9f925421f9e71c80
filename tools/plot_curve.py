#!/usr/bin/env python3
"""Draws a run's learning curve: accuracy and loss against seconds.

    tools/plot_curve.py curve.csv curve.png [--title TEXT]

The CSV has the columns seconds, examples, accuracy (0 to 1) and loss, with their names in its first line.
"""

import argparse
import csv
import math
import sys

COLUMNS = ["seconds", "examples", "accuracy", "loss"]
INK, FAINT, BLUE, RUST = "#22272e", "#d9dee5", "#2563a8", "#b4532a"


class BadFile(Exception):
    """The CSV file is invalid; the message names the line."""


def read_number(where, name, text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise BadFile(f"{where}: {name}: expected a number; received {text!r}") from None
    if name == "accuracy" and not 0 <= value <= 1:
        raise BadFile(f"{where}: accuracy: expected 0 to 1; received {text}")
    if name in ("seconds", "examples") and not (math.isfinite(value) and value >= 0):
        raise BadFile(f"{where}: {name}: expected 0 or more; received {text}")
    return value  # a loss may be NaN if the run diverged


def read_curve(path):
    """Returns {column: numbers}. Raises BadFile, which names the file and the line."""
    curve = {name: [] for name in COLUMNS}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                raise BadFile(f"{path}:1: expected the columns {', '.join(COLUMNS)}; missing: {', '.join(missing)}")
            for row in rows:
                where = f"{path}:{rows.line_num}"
                if not row:
                    continue
                if len(row) != len(header):
                    raise BadFile(f"{where}: expected {len(header)} values; received {len(row)}")
                values = dict(zip(header, row))
                for name in COLUMNS:
                    curve[name].append(read_number(where, name, values[name]))
                if len(curve["seconds"]) > 1 and curve["seconds"][-1] < curve["seconds"][-2]:
                    raise BadFile(
                        f"{where}: seconds: expected at least {curve['seconds'][-2]:g}, as before; "
                        f"received {values['seconds']}"
                    )
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not curve["seconds"]:
        raise BadFile(f"{path}:2: expected at least one line of numbers")
    return curve


def draw(curve, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter

    pyplot.rcParams.update(
        {
            "font.size": 11,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.edgecolor": FAINT,
        }
    )
    figure, (top, bottom) = pyplot.subplots(
        2, 1, sharex=True, figsize=(8, 6), dpi=150, height_ratios=[3, 2], layout="constrained"
    )
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.15)
    seconds = curve["seconds"]
    marker = "o" if len(seconds) <= 60 else None
    for axes, name, color in ((top, "accuracy", BLUE), (bottom, "loss", RUST)):
        axes.plot(seconds, curve[name], color=color, linewidth=2, marker=marker, markersize=3.5)
        axes.set_ylabel(name)
        axes.grid(color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0)
    top.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    bottom.set_xlabel("seconds")
    last = curve["accuracy"][-1]
    top.plot(seconds[-1], last, "o", color=BLUE, markersize=7)
    top.annotate(
        f"{last:.1%}",
        (seconds[-1], last),
        (0, -10),
        textcoords="offset points",
        ha="right",
        va="top",
        color=BLUE,
        fontsize=14,
        fontweight="bold",
    )
    top.set_title(title, loc="left", fontsize=14, fontweight="bold")
    top.set_title(f"{curve['examples'][-1]:,.0f} examples in {seconds[-1]:.1f} s", loc="right", fontsize=10)
    figure.savefig(path, format="png")
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Draws accuracy and loss against seconds.")
    parser.add_argument("csv", help="CSV file of the run")
    parser.add_argument("png", help="picture to write")
    parser.add_argument("--title", default="Learning curve")
    arguments = parser.parse_args()
    try:
        curve = read_curve(arguments.csv)
        draw(curve, arguments.png, arguments.title)
    except BadFile as error:
        sys.exit(f"plot_curve: {error}")
    except OSError as error:
        sys.exit(f"plot_curve: {arguments.png}: {error.strerror}")


if __name__ == "__main__":
    main()

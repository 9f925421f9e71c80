"""Measures waiting time and accuracy with a straggler: synchronous, bounded-staleness (SSP) and asynchronous workers,
four ranks on two
"hosts" over loopback, one of them slowed down by a factor of three. Prints JSON lines (ratio = the synchronous workers'
waiting time /
SSP's) and draws build/bench/ssp.png.

.venv/bin/python bench/ssp.py --seconds 4
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from measure import ROOT, mpirun_words

RANKS = 4
CLOCKS = {"sync": "synchronous (BSP)", "ssp": "bounded staleness (SSP, 8 ticks)", "async": "asynchronous"}
COLORS = {"sync": "#b4532a", "ssp": "#2563a8", "async": "#5b8c3e"}
INK, FAINT = "#22272e", "#d9dee5"


def run(build, clock, straggler, seconds):
    """Runs the program and returns the output of every rank, in rank order."""
    command = mpirun_words(RANKS, build / "bin" / "bench_ssp", clock, straggler, seconds)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60 + 5 * seconds, env={**os.environ, "PLEIAD_SPLIT_HOSTS": "2"}
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != RANKS:
        sys.exit(f"bench_ssp {clock} {straggler} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return sorted(lines, key=lambda line: line["rank"])


def accuracy_at(curve, second):
    return [accuracy for at, accuracy in curve if at <= second][-1]


def measure(build, straggler, seconds, rounds):
    """Runs the clocks alternately. Returns {clock: runs} and prints the JSON line."""
    runs = {clock: [] for clock in CLOCKS}
    for _ in range(rounds):
        for clock in CLOCKS:
            runs[clock].append(run(build, clock, straggler, seconds))
    waited = {clock: [sum(line["waited"] for line in one) for one in runs[clock]] for clock in CLOCKS}
    ratios = [bsp / max(ssp, 1e-9) for bsp, ssp in zip(waited["sync"], waited["ssp"])]
    middle = statistics.median
    line = {
        "name": "ssp" if straggler == "moving" else f"ssp_{straggler}",
        "procs": RANKS,
        "size": 1290,
        "median_us": round(middle(waited["ssp"]) * 1e6, 1),
        "spread": round((max(waited["ssp"]) - min(waited["ssp"])) / 2 / middle(waited["ssp"]), 3),
        "peer_us": round(middle(waited["sync"]) * 1e6, 1),
        "ratio": round(middle(ratios), 3),
        "seconds": seconds,
        "steps": {clock: middle([sum(line["steps"] for line in one) for one in runs[clock]]) for clock in CLOCKS},
    }
    for part, at in (("half", seconds / 2), ("end", seconds)):
        line[f"accuracy_{part}"] = {
            clock: round(middle([accuracy_at(one[0]["curve"], at) for one in runs[clock]]), 4) for clock in CLOCKS
        }
    print(json.dumps(line), flush=True)
    return runs


def draw(runs, seconds, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter

    pyplot.rcParams.update({"font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 4.6), dpi=150, width_ratios=[2.2, 1], layout="constrained"
    )
    for clock, name in CLOCKS.items():
        for i, one in enumerate(runs[clock]):
            at, accuracy = zip(*one[0]["curve"])
            left.plot(at, accuracy, color=COLORS[clock], linewidth=2, alpha=0.75, label=name if i == 0 else None)
        waited = statistics.median(sum(line["waited"] for line in one) for one in runs[clock])
        share = waited / (seconds * RANKS)
        right.bar(clock, share, color=COLORS[clock], width=0.6)
        right.annotate(f"{share:.1%}", (clock, share), (0, 4), textcoords="offset points", ha="center")
    left.set_xlabel("seconds")
    left.set_ylabel("test accuracy")
    left.legend(frameon=False, loc="lower right")
    right.set_ylabel("share of the time spent waiting")
    for axes in (left, right):
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(color=FAINT, linewidth=0.8, axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, colors=INK)
    right.margins(y=0.15)
    left.set_title("Four workers, one at a time slowed three times", loc="left", fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="how often the clocks take turns")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))
    runs = measure(build, "moving", options.seconds, options.rounds)
    measure(build, "fixed", options.seconds, 1)
    picture = ROOT / "build" / "bench" / "ssp.png"
    draw(runs, options.seconds, picture)
    print(f"wrote {picture.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()

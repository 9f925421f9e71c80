#!/usr/bin/env python3
"""Draws the ratios that the benchmarks print as JSON lines.

    tools/draw_benches.py                         draws docs/images/bench_NAME.svg of each bench/results/NAME.jsonl
    tools/draw_benches.py LINES.jsonl PLOT.svg    draws your own lines

A row of a plot has the lines of one case, and a bar for each number of processes or threads, or each machine. The file
bench/results/NAME.jsonl has the figures of docs/benchmarks.md, with the machine in each line.
"""

import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
TITLES = {
    "array_async": "array, add + get, asynchronous",
    "array_sync": "array, add + get, synchronous",
    "matrix_get": "get of random rows",
    "matrix_add": "add to random rows",
    "allreduce_mpi": "all-reduce against Open MPI",
    "allreduce_gloo": "all-reduce against gloo",
    "mlp": "MLP of six layers",
    "small": "MLP 784-128-10",
    "autoencoder": "auto-encoder",
    "cnn": "SINGA's CIFAR-10 CNN",
    "rbm": "RBM, binary data",
    "rbm_grey": "RBM, grey levels",
    "gru": "GRU, 512 units",
    "local": "local filters",
    "torch_ddp_apart": "no exchange (upper limit)",
    "torch_ddp_sync": "DistributedOptimizer",
    "torch_ddp_accumulate4": "accumulate=4",
    "torch_ddp_sync_gradient": "ParameterManager, synchronous",
    "torch_ddp_async_gradient": "ParameterManager, asynchronous",
}
UNITS = {"array": "floats", "allreduce": "floats", "matrix": "rows"}
LABELS, WIDTH, END = 320, 380, 60  # of the labels, the bars and the figures at their ends
BAR, GAP, TOP, BOTTOM = 13, 12, 56, 34
COLORS = ["#2563a8", "#74a0cf", "#b4532a", "#d99a7c"]
INK, GREY, FAINT = "#22272e", "#57606a", "#d9dee5"


def read_lines(path):
    """Returns the lines of a benchmark that have a ratio."""
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            raise SystemExit(f"{path}:{number}: expected a line of JSON; received {text[:60]!r}") from None
        if "ratio" in line:
            lines.append(line)
    if not lines:
        raise SystemExit(f"{path}: no line has a ratio")
    return lines


def case_of(line):
    """Returns the label of a line's row."""
    title = TITLES.get(line["name"], line["name"])
    if "model" in line:
        return f"{line['model'].upper()}: {title}"
    if "size" not in line:
        return title
    unit = UNITS.get(line["name"].split("_")[0])
    return f"{title}, {line['size']:,} {unit}" if unit else f"{title}, batch {line['size']:,}"


def series_of(line):
    """Returns the label of a line's bar within its row."""
    if "model" in line:
        return line.get("machine", "").split(":")[0] or "this machine"
    count, word = (line["procs"], "process") if "procs" in line else (line.get("threads", 1), "thread")
    return f"{count} {word}{'' if count == 1 else 'es' if word == 'process' else 's'}"


def svg_of(lines):
    """Returns the plot: a logarithmic axis of ratios on which a bar begins at 1, where both programs are equally fast."""
    cases = list(dict.fromkeys(map(case_of, lines)))
    series = list(dict.fromkeys(map(series_of, lines)))
    found = {(case_of(line), series_of(line)): line["ratio"] for line in lines}
    machines = list(dict.fromkeys(line["machine"] for line in lines if "machine" in line))
    low = min(0.5, 2 ** math.floor(math.log2(min(found.values()))))
    high = max(2, 2 ** math.ceil(math.log2(max(found.values()))))

    def x_of(ratio):
        return LABELS + WIDTH * math.log2(ratio / low) / math.log2(high / low)

    rows, y = [], TOP
    for case in cases:
        bars = [(name, found[case, name]) for name in series if (case, name) in found]
        rows.append((y, case, bars))
        y += len(bars) * BAR + GAP
    height, total = y + BOTTOM, LABELS + WIDTH + END
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" height="{height}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{total}" height="{height}" fill="white"/>',
    ]
    left = LABELS
    for name, color in zip(series, COLORS, strict=False):
        parts.append(f'<rect x="{left}" y="12" width="12" height="12" rx="2" fill="{color}"/>')
        parts.append(f'<text x="{left + 17}" y="22" fill="{INK}">{escape(name)}</text>')
        left += 34 + 7 * len(name)
    tick = low
    while tick <= high:
        x, color = x_of(tick), INK if tick == 1 else FAINT
        parts.append(f'<path d="M{x:.1f},{TOP - 8} V{y}" stroke="{color}" stroke-width="{1.4 if tick == 1 else 1}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle" fill="{GREY}">{tick:g}</text>')
        tick *= 2
    for top, case, bars in rows:
        middle = top + len(bars) * BAR / 2 + 4
        parts.append(f'<text x="{LABELS - 12}" y="{middle:.1f}" text-anchor="end" fill="{INK}">{escape(case)}</text>')
        for index, (name, ratio) in enumerate(bars):
            begin, end = sorted((x_of(1), x_of(ratio)))
            color, bar_top = COLORS[series.index(name) % len(COLORS)], top + index * BAR
            parts.append(
                f'<rect x="{begin:.1f}" y="{bar_top + 1}" width="{max(end - begin, 1):.1f}" height="{BAR - 2}" fill="{color}"/>'
            )
            parts.append(
                f'<text x="{end + 5:.1f}" y="{bar_top + 10}" font-size="10.5" fill="{GREY}">{ratio:.2f}</text>'
            )
    said = "peer's time / our time, above 1: Pleiad is faster"
    parts.append(f'<text x="{LABELS}" y="{height - 20}" fill="{GREY}">{escape(said)}</text>')
    parts.append(
        f'<text x="{LABELS}" y="{height - 5}" font-size="10.5" fill="{GREY}">{escape("; ".join(machines))}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def main():
    if len(sys.argv) == 3:
        Path(sys.argv[2]).write_text(svg_of(read_lines(Path(sys.argv[1]))), encoding="utf-8")
        return
    if len(sys.argv) > 1:
        raise SystemExit(__doc__.strip())
    for path in sorted((ROOT / "bench" / "results").glob("*.jsonl")):
        target = ROOT / "docs" / "images" / f"bench_{path.stem}.svg"
        target.write_text(svg_of(read_lines(path)), encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

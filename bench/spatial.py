"""Measures training with images split over processes. Prints JSON lines.

make bench-spatial

spatial_2: two ranks, each on one core, compared with one rank on one core and the same batch. ratio = one's time /
two's.
spatial_4_on_2: four ranks on two cores compared with two ranks. overhead = four's time / two's - 1.
spatial_delay_OVERLAP_bN, with batches of 4 and one image: every halo message is delayed, by less than the time of half
a batch in a
layer. growth = the additional time of a step. `delays` is the same in units of the delay; a step without overlap waits
for seven.
OVERLAP is that of the plan: "never", "always", or "auto", which is the default and overlaps only messages that are
delayed or go to
another host, so that its growth includes the cost of overlap.
spatial_overlap_bN: that cost, without delays. spatial_torch: PyTorch with gloo, which exchanges the same halos by hand,
on two ranks,
each on one core. ratio = its time / ours.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PLEIAD_BUILD", ROOT / "build" / "release"))
ENV = os.environ | {"OMP_NUM_THREADS": "1", "PLEIAD_LOG_LEVEL": "error"}


def ours(options, ranks, *, grid="auto", delay=0.0, overlap="auto", bind=True, batch=None):
    core = min(os.sched_getaffinity(0))
    launch = ["taskset", "-c", core]
    if ranks > 1:
        launch = [BUILD / "bin" / "pleiad", "launch", "-n", ranks] + (["--bind", "core"] if bind else [])
    words = [BUILD / "bin" / "bench_spatial", grid, options.side, batch or options.batch, options.steps, delay, overlap]
    done = subprocess.run([str(w) for w in launch + words], capture_output=True, text=True, timeout=600, env=ENV)
    if done.returncode != 0:
        raise SystemExit(f"bench_spatial on {ranks} ranks failed: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def torch(options):
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        words = [pathlib.Path(folder) / "meet", options.side, options.batch, options.steps]
        program = [sys.executable, ROOT / "bench" / "spatial_torch.py"]
        ranks = [
            subprocess.Popen(
                [str(w) for w in ["taskset", "-c", cores[r % len(cores)], *program, r, 2, *words]],
                stdout=subprocess.PIPE,
                text=True,
                env=ENV,
            )
            for r in range(2)
        ]
        texts = [rank.communicate(timeout=600)[0] for rank in ranks]
    return json.loads(texts[0].strip().splitlines()[-1])


def show(name, procs, options, line, runs):
    steps = [run["step_us"] for run in runs]
    head = {"name": name, "procs": procs, "size": options.side, "batch": options.batch}
    head |= {"median_us": statistics.median(steps), "spread": round(spread(steps), 3)}
    print(json.dumps(head | line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=256, help="of the images")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5, help="of a run; the median counts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["2", "4", "delay", "torch"])
    options = parser.parse_args()
    wanted = {options.only} if options.only else {"2", "4", "delay", "torch"}

    kinds = {"one": lambda: ours(options, 1), "two": lambda: ours(options, 2)}
    if "4" in wanted:
        kinds["four"] = lambda: ours(options, 4, bind=False)
    if "torch" in wanted:
        kinds["torch"] = lambda: torch(options)
    runs = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, run in kinds.items():
            runs[kind].append(run())
    first = runs["one"][0]["losses"]
    for kind in ("two", "four"):
        for run in runs.get(kind, []):
            near = [math.isclose(a, b, rel_tol=1e-4) for a, b in zip(first, run["losses"], strict=True)]
            assert all(near), (first, run)

    def ratio(a, b):
        return round(statistics.median(x["step_us"] / y["step_us"] for x, y in zip(runs[a], runs[b], strict=True)), 3)

    peer = {kind: statistics.median(run["step_us"] for run in them) for kind, them in runs.items()}
    if "2" in wanted:
        show("spatial_2", 2, options, {"peer_us": peer["one"], "ratio": ratio("one", "two")}, runs["two"])
    if "4" in wanted:
        line = {"peer_us": peer["two"], "overhead": round(ratio("four", "two") - 1, 3)}
        show("spatial_4_on_2", 4, options, line, runs["four"])
    if "torch" in wanted:
        line = {"peer_us": peer["torch"], "ratio": ratio("torch", "two")}
        show("spatial_torch", 2, options, line, runs["two"])
    if "delay" in wanted:
        # Less than the time of half a batch in the fastest layer with an exchange: an eighth of a step's mean over
        # eight layers.
        for batch in (options.batch, 1):
            delay = round(peer["two"] / 1e3 / 64 * batch / options.batch, 3)
            turns = {(overlap, late): [] for overlap in ("never", "always", "auto") for late in (0, delay)}
            for _ in range(options.rounds):
                for (overlap, late), them in turns.items():
                    them.append(ours(options, 2, overlap=overlap, batch=batch, delay=late))

            def more(late, early, turns=turns):
                return statistics.median(
                    b["step_us"] - a["step_us"] for a, b in zip(turns[early], turns[late], strict=True)
                )

            for overlap in ("never", "always", "auto"):
                base = statistics.median(run["step_us"] for run in turns[overlap, 0])
                longer = more((overlap, delay), (overlap, 0))
                line = {"peer_us": base, "delay_us": delay * 1e3, "overlap": overlap, "batch": batch}
                line |= {"growth": round(longer / base, 3), "delays": round(longer / (delay * 1e3), 2)}
                show(f"spatial_delay_{overlap}_b{batch}", 2, options, line, turns[overlap, delay])
            base = statistics.median(run["step_us"] for run in turns["never", 0])
            line = {"peer_us": base, "batch": batch, "overhead": round(more(("always", 0), ("never", 0)) / base, 3)}
            show(f"spatial_overlap_b{batch}", 2, options, line, turns["always", 0])


main()

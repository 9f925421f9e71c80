"""Compares two simultaneous jobs of `pleiad run` with one. Each job may use all cores. With threads that spin while they wait, two jobs
took forty times as long as one. Prints one JSON line and fails if they take more than 2.5 times as long.

    PLEIAD_BUILD=build/release python bench/busy.py
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

PLEIAD = Path(os.environ.get("PLEIAD_BUILD", "build/release")).resolve() / "bin" / "pleiad"
ROUNDS = 5
BOUND = 2.5

JOB = """name: "busy"
train_steps: 400
train_one_batch { alg: kBP }
updater { type: kSGD learning_rate { type: kFixed base_lr: 0.01 } }
neuralnet {
  layer { name: "data" type: kCSVInput store_conf { path: "POINTS" batchsize: 128 shape: 32 } }
  layer {
    name: "hidden" type: kInnerProduct srclayers: "data" innerproduct_conf { num_output: 256 }
    param { name: "w1" init { type: kGaussian std: 0.1 } } param { name: "b1" init { type: kConstant value: 0 } }
  }
  layer { name: "act" type: kSTanh srclayers: "hidden" }
  layer {
    name: "scores" type: kInnerProduct srclayers: "act" innerproduct_conf { num_output: 3 }
    param { name: "w2" init { type: kGaussian std: 0.1 } } param { name: "b2" init { type: kConstant value: 0 } }
  }
  layer { name: "loss" type: kSoftmaxLoss srclayers: "scores" srclayers: "data" }
}
cluster { workspace: "WORKSPACE" }
"""


def write_points(path):
    with open(path, "w") as file:
        for i in range(1024):
            values = (math.sin(1.7 * (i % 3) + k) + 0.3 * math.cos(12.9 * i + 7.1 * k) for k in range(32))
            file.write(f"{i % 3}," + ",".join(f"{value:.4f}" for value in values) + "\n")


def seconds(folder, jobs):
    """Starts `jobs` jobs at once and returns the time until the last one ends."""
    commands = []
    for number in range(jobs):
        conf = folder / f"job{number}.conf"
        conf.write_text(JOB.replace("POINTS", f"{folder}/points.csv").replace("WORKSPACE", f"{folder}/work{number}"))
        commands.append([PLEIAD, "run", conf, "--display", "off"])
    start = time.perf_counter()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    codes = [process.wait(timeout=600) for process in running]
    if any(codes):
        sys.exit(f"a job ended with code {max(codes)}")
    return time.perf_counter() - start


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_points(folder / "points.csv")
        seconds(folder, 1)
        pairs = [(seconds(folder, 1), seconds(folder, 2)) for _ in range(ROUNDS)]
    one, two = (median(times) for times in zip(*pairs))
    ratio = median(b / a for a, b in pairs)
    line = {"name": "two_jobs_at_once", "cores": len(os.sched_getaffinity(0)), "one_s": round(one, 3)}
    print(json.dumps(line | {"two_s": round(two, 3), "ratio": round(ratio, 3), "bound": BOUND}))
    return ratio > BOUND


if __name__ == "__main__":
    sys.exit(main())

"""Time per step of SINGA's cluster modes on one machine, and the time from the start of a job of one step to its end."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ["PLEIAD_BUILD"])
PLEIAD = BUILD / "bin" / "pleiad"
STEPS = 600
LOSS = 0.55  # loss on the test images that every mode must reach


def prepare(folder):
    """Creates a SINGA root with 10,000 records of Fashion-MNIST."""
    from pleiad import nn

    shutil.copytree(ROOT / "compat" / "singa" / "examples", folder / "examples")
    for part in ("train", "test"):
        store = nn.open_dataset("fashion-mnist", part)
        rows = range(10_000)
        data = store.read("data", rows).reshape(-1, 28, 28)
        nn.write_store(
            "kvfile", folder / f"examples/mnist/{part}_data.bin", data=data, labels=store.read("label", rows)
        )


def job(folder, name, **fields):
    path = folder / "examples" / "mnist" / f"{name}.conf"
    text = path.read_text()
    for field, value in fields.items():
        text = re.sub(rf"^{field}: .*$\n", "", text, flags=re.MULTILINE)
        text = f"{field}: {value}\n{text}"
    path = path.with_name(f"{name}-bench.conf")
    path.write_text(text)
    return path


def seconds(command, folder):
    start = time.perf_counter()
    subprocess.run([str(word) for word in command], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        one = job(folder, "allreduce", train_steps=1, disp_freq=0, test_freq=0)
        text = one.read_text().replace("nworkers_per_group: 2", "nworkers_per_group: 1")
        one.write_text(text)
        times = [seconds([PLEIAD, "run", one], folder) for _ in range(7)]
        print(json.dumps({"name": "singa_start", "processes": 1, "seconds": round(median(times), 3)}), flush=True)
        missed = []
        for mode in ("allreduce", "sandblaster", "downpour", "hogwild"):
            for launch in ([], [PLEIAD, "launch", "-n", "2"]):
                # The time of the same job with one step is subtracted, to exclude start and end.
                first = job(folder, mode, train_steps=1, disp_freq=0, test_freq=0)
                start = median(seconds([*launch, PLEIAD, "run", first], folder) for _ in range(3))
                conf = job(folder, mode, train_steps=STEPS, disp_freq=0, test_freq=0)
                taken = [seconds([*launch, PLEIAD, "run", conf], folder) - start for _ in range(3)]
                conf = job(folder, mode, train_steps=STEPS, disp_freq=0, test_freq=50, test_steps=50)
                seconds([*launch, PLEIAD, "run", conf], folder)
                results = json.loads((folder / "examples" / "mnist" / mode / "results.json").read_text())["reports"]
                reached = [report["step"] for report in results if report["loss"] <= LOSS]
                line = {
                    "name": "singa_step",
                    "mode": mode,
                    "workers": "2 processes" if launch else "2 threads",
                    "steps": STEPS,
                    "ms_per_step": round(1000 * median(taken) / STEPS, 3),
                    f"steps_to_loss_{LOSS}": reached[0] if reached else None,
                    "test_loss": round(results[-1]["loss"], 4),
                    "test_acc": round(results[-1]["acc"], 4),
                }
                print(json.dumps(line), flush=True)
                if not reached:
                    missed.append(mode)
    return f"these never came to a loss of {LOSS}: {', '.join(missed)}" if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Type checkers accept a typical training script and reject typical mistakes in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_with_deadline

SOURCES = ROOT / "bindings" / "python"

SCRIPT = """\
import numpy as np

import pleiad
from pleiad import nn

session = pleiad.init(timeout=60)
x = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int32")
net = nn.Sequential([nn.Dense(16, "relu"), nn.Dropout(0.1), nn.Dense(2)], input=(8,), loss=nn.SoftmaxLoss())
rate = nn.schedules.warmup(nn.schedules.cosine(0.01, steps=100), steps=10)
trainer = nn.Trainer(net, nn.AdamW(), batch=32, schedule=rate, clip_norm=1.0, exchange="tables", clock="sync")
stop = nn.EarlyStopping("val_loss", patience=2, mode="min")
history = trainer.fit(x, y, epochs=3, validation=(x, y), class_weight={0: 1.0, 1: 2.0}, callbacks=[stop])
first: float = history["loss"][0]
scores = trainer.predict(x, "dense2")
best: int = int(scores.argmax(axis=1)[0])
layers = trainer.predict(x, ["dense1", "dense2"])
found: float = trainer.evaluate(x, y)["accuracy"]
table = session.array(3, clock="ssp", staleness=2)
weights: dict[str, object] = {**net.state_dict()}
"""

# A line of the script, and the mistake in its place.
MISTAKES = [
    ('clock="sync"', 'clock="sink"'),
    ("nn.Dense(16,", 'nn.Dense("16",'),
    ("epochs=3,", 'epochs="3",'),
    ('mode="min"', 'mode="lowest"'),
    ('history["loss"][0]', 'history["loss"].mean()'),
    ('trainer.evaluate(x, y)["accuracy"]', "trainer.evaluate(x, y).accuracy"),
    ('session.array(3, clock="ssp"', 'session.array(3, clock="spp"'),
]


def mypy_lines(path):
    command = [sys.executable, "-m", "mypy", "--cache-dir", ROOT / "build" / "mypy_cache", path]
    done = run_with_deadline(command, timeout=300, cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if line.split(":")[0].endswith(path.name) and ": error:" in line]
    return {int(line.split(":")[1]) for line in lines}, done.stdout


def pyright_lines(path):
    settings = {"extraPaths": [str(SOURCES)], "typeCheckingMode": "standard", "pythonVersion": "3.11", "include": ["."]}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    program = Path(sys.executable).parent / "basedpyright"
    assert program.exists(), "run: tools/setup.sh types"
    command = [program, "--outputjson", "--pythonpath", sys.executable, "--project", path.parent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error" and each["file"].endswith(path.name)]
    return {each["range"]["start"]["line"] + 1 for each in errors}, done.stdout


def check(lines_of, folder):
    right, wrong = folder / "right.py", folder / "wrong.py"
    right.write_text(SCRIPT)
    text, expected = SCRIPT, set()
    for old, new in MISTAKES:
        assert text.count(old) == 1
        expected.add(text[: text.index(old)].count("\n") + 1)
        text = text.replace(old, new)
    lines, output = lines_of(right)
    assert lines == set(), output
    right.unlink()
    wrong.write_text(text)
    lines, output = lines_of(wrong)
    assert lines == expected, output


def test_mypy_accepts_a_training_script_and_rejects_mistakes(tmp_path):
    check(mypy_lines, tmp_path)


@pytest.mark.full
def test_pyright_accepts_a_training_script_and_rejects_mistakes(tmp_path):
    check(pyright_lines, tmp_path)

"""The example net on Fashion-MNIST, as a user would run it."""

import re
import subprocess

import pytest


def reports(text):
    """Returns (step, phase, loss, accuracy) of each line."""
    lines = re.findall(r"^step +(\d+), (\w+): loss ([\d.]+), accuracy ([\d.]+)$", text, re.MULTILINE)
    return [(int(step), phase, float(loss), float(accuracy)) for step, phase, loss, accuracy in lines]


def test_the_example_names_what_is_wrong(build_dir):
    result = subprocess.run(
        [build_dir / "bin" / "fashion_cnn", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PLEIAD_ROLE": "king"},
    )
    assert result.returncode == 1
    assert result.stderr.startswith("fashion_cnn: ") and "king" in result.stderr


@pytest.mark.full
def test_a_small_cnn_reaches_nine_in_ten(build_dir):
    result = subprocess.run(
        [build_dir / "bin" / "fashion_cnn"], capture_output=True, text=True, timeout=6000, check=True
    )
    last = reports(result.stdout)[-1]
    assert last[:2] == (3000, "test") and last[3] >= 0.90, result.stdout


@pytest.mark.full
def test_two_processes_train_as_one(build_dir, mpirun):
    program = build_dir / "bin" / "fashion_cnn"
    alone = subprocess.run([program, "400"], capture_output=True, text=True, timeout=3000, check=True).stdout
    together = mpirun(2, program, "400", timeout=300).stdout
    assert len(reports(alone)) == 3
    for one, two in zip(reports(alone), reports(together), strict=True):
        assert one[:2] == two[:2]
        assert one[2] == pytest.approx(two[2], rel=2e-3)

"""The examples of PyTorch, JAX and Keras 3: they run alone and as a job, only the master prints, and four workers reach
the accuracy of one.
"""

import re

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples"
FEW = ["--samples", 1200, "--epochs", 2]


def accuracies(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(number) for number in re.findall(r"(?:accuracy|right) ([\d.]+)%", done.stdout)]


@pytest.mark.parametrize(
    ("script", "words", "world", "least"),
    [
        ("torch/cnn.py", FEW, "alone", 50),
        pytest.param("torch/cnn.py", [*FEW, "--way", "async"], 4, 30, marks=pytest.mark.full),
        pytest.param("torch/recommender.py", ["--steps", 250], "alone", 80, marks=pytest.mark.full),
        pytest.param("torch/recommender.py", ["--steps", 250], 2, 80, marks=pytest.mark.full),
        ("jax/mlp.py", FEW, "alone", 40),
        pytest.param("jax/mlp.py", [*FEW, "--way", "async"], 2, 30, marks=pytest.mark.full),
        pytest.param("jax/mlp.py", FEW, 4, 40, marks=pytest.mark.full),
        pytest.param("torch/recommender.py", ["--steps", 500], 4, 90, marks=pytest.mark.full),
    ],
)
def test_an_example_learns_and_the_master_alone_speaks(python_job, script, words, world, least):
    seen = accuracies(python_job(world, EXAMPLES / script, *words, timeout=180, env={"PLEIAD_LOG_LEVEL": "warn"}))
    assert len(seen) == (2 if "--epochs" in words else words[-1] // 250)
    assert seen[-1] >= least


@pytest.mark.full
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_the_example_of_keras_learns(python_job, backend):
    done = python_job(
        2,
        EXAMPLES / "keras" / "keras3_cnn.py",
        "--samples",
        2400,
        "--epochs",
        3,
        timeout=180,
        env={"KERAS_BACKEND": backend},
    )
    assert accuracies(done)[-1] >= 30


@pytest.mark.full
def test_four_workers_learn_what_one_learns(python_job):
    """Fashion-MNIST, the same number of epochs, synchronous: the accuracies differ by less than one percentage point."""
    alone, four = (
        accuracies(python_job(world, EXAMPLES / "torch" / "cnn.py", "--epochs", 3, timeout=1500))
        for world in ("alone", 4)
    )
    assert len(alone) == len(four) == 3
    assert alone[-1] > 86 and abs(four[-1] - alone[-1]) <= 1, (alone, four)

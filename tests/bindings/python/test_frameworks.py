"""Theano, PyTensor, Lasagne and Keras: the cases of tests/bindings/python/frameworks, the sections of the page and the examples,
in worlds of 1, 2 and 4. The original Theano and the libraries on it are in .venv-theano.
"""

import itertools
import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from run_page import sections

FOLDER = Path(__file__).parent / "frameworks"
PAGE = ROOT / "docs" / "python.md"
OLD = ROOT / ".venv-theano" / "bin" / "python"
NO_C = "mode=FAST_COMPILE"  # for cases that compile many small functions and call each a few times

# name: (interpreter, environment, program)
STACKS = {
    "theano": (OLD, {}, "theano_cases.py"),
    "pytensor": (sys.executable, {"PYTENSOR_FLAGS": NO_C}, "theano_cases.py"),
    "lasagne": (OLD, {}, "lasagne_cases.py"),
    "keras1": (OLD, {"THEANO_FLAGS": NO_C, "KERAS": "keras1"}, "keras_cases.py"),
    "keras2": (OLD, {"THEANO_FLAGS": NO_C}, "keras_cases.py"),
    "keras3-torch": (sys.executable, {"KERAS_BACKEND": "torch"}, "keras_cases.py"),
    "keras3-jax": (sys.executable, {"KERAS_BACKEND": "jax"}, "keras_cases.py"),
}


@pytest.fixture(scope="session")
def job(run, mpirun, python_env, build_dir):
    """job(python, world, *words, env) returns a finished job. Its caches are in the build folder, so the next run can
    use them.
    """
    home = build_dir / "frameworks_home"
    (home / ".keras").mkdir(parents=True, exist_ok=True)  # Keras 1 fails if two ranks create it at the same time

    def call(python, world, *words, env, timeout=240):
        if not Path(python).exists():
            pytest.fail(f"{python} is not there: tools/setup.sh theano", pytrace=False)
        # Most of the time is spent on compiling Theano's C code, so it is not optimised.
        flags = f"floatX=float32,blas.ldflags=-lopenblas,gcc.cxxflags=-O0,base_compiledir={home}/theano"
        paths = [python_env["PYTHONPATH"]]
        if env.get("KERAS") == "keras1":
            paths.insert(0, str(ROOT / ".venv-theano" / "keras1"))
        env = {
            **python_env,
            **env,
            "HOME": str(home),  # Keras writes its settings there
            "PYTHONPATH": os.pathsep.join(paths),
            "THEANO_FLAGS": ",".join(filter(None, [flags, env.get("THEANO_FLAGS")])),
            "PYTENSOR_FLAGS": ",".join(filter(None, [f"base_compiledir={home}/pytensor", env.get("PYTENSOR_FLAGS")])),
            "PLEIAD_LOG_LEVEL": "error",
            "OMP_NUM_THREADS": "1",
        }
        if world == 1:
            return run(python, *words, env=env, timeout=timeout)
        return mpirun(world, python, *words, env=env, timeout=timeout)

    return call


def rows(short, *lists):
    """Returns every combination. All but those in `short` are marked full."""
    return [pytest.param(*row, marks=[] if row in short else pytest.mark.full) for row in itertools.product(*lists)]


@pytest.mark.parametrize("world, stack", rows([(2, "theano"), (2, "keras3-torch")], [1, 2, 4], STACKS))
def test_cases(job, stack, world):
    python, env, program = STACKS[stack]
    done = job(python, world, FOLDER / program, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = len(re.findall(r"^def \w+\(sync\)", (FOLDER / program).read_text(), re.MULTILINE))
    assert cases >= 4 and done.stdout.count(f"{2 * cases} passed") == world


# A world of two is tested by the cases above.
@pytest.mark.parametrize("world", [1, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize("stack", ["theano", "lasagne", "keras1"])
def test_the_documents_blocks_run(job, stack, world):
    python, env, program = STACKS[stack]
    names = re.findall(r"^def (the_\w*document_s_\w+)\(sync\)", (FOLDER / program).read_text(), re.MULTILINE)
    done = job(python, world, FOLDER / program, *names, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert names and done.stdout.count(f"{2 * len(names)} passed") == world


@pytest.mark.parametrize("world, mode", rows([(1, "async"), (2, "sync")], [1, 2, 4], ["async", "sync"]))
def test_the_blocks_of_the_page_run(job, world, mode):
    headings = ["Theano", "Lasagne", "Keras"]
    done = job(
        OLD,
        world,
        FOLDER.parent / "run_page.py",
        PAGE,
        *headings,
        *["--sync"][: mode == "sync"],
        env={"THEANO_FLAGS": NO_C},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for heading in headings:
        blocks = sections(PAGE.read_text())[heading].count("```python")
        assert blocks > 0 and done.stdout.count(f"{heading}: {blocks} blocks ran") == world


EXAMPLES = {
    "theano": "theano/logistic_regression.py",
    "pytensor": "theano/logistic_regression.py",
    "lasagne": "lasagne/cnn.py",
    "keras1": "keras/mlp.py",
    "keras2": "keras/mlp.py",
    "keras3-torch": "keras/mlp_keras3.py",
    "keras3-jax": "keras/mlp_keras3.py",
}
SHORT = [(1, "theano"), (1, "keras3-torch")]


@pytest.mark.parametrize("world, stack", rows(SHORT, [1, 4], EXAMPLES))
def test_the_examples_learn(job, stack, world, tmp_path):
    python, env, _ = STACKS[stack]
    if stack == "theano" and world == 4:
        env = {"THEANO_FLAGS": NO_C}  # its C code is for the larger job of test_four_workers_learn_as_well_as_one
    example = EXAMPLES[stack]
    curve = tmp_path / "curve.csv"
    words = [ROOT / "examples" / example, "--samples", 4000, "--epochs", 2, "--curve", curve]
    done = job(python, world, *words, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = [float(word) for word in re.findall(r"^epoch \d: .*accuracy ([\d.]+)%", done.stdout, re.MULTILINE)]
    assert len(accuracies) == 2, done.stdout  # printed by the master only
    assert accuracies[-1] > 50
    assert len(curve.read_text().splitlines()) == 3
    assert "MULTIVERSO: " in (ROOT / "examples" / example).read_text()


@pytest.mark.full
def test_the_losses_of_one_two_and_four_workers_become_a_picture(job, tmp_path):
    example = ROOT / "examples" / EXAMPLES["pytensor"]
    words = [ROOT / "examples" / "plot_workers.py", example, tmp_path / "loss.png", "--samples", 2000, "--epochs", 2]
    done = job(sys.executable, 1, *words, env={})
    assert done.returncode == 0, done.stdout + done.stderr
    picture = (tmp_path / "loss.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    broken = job(sys.executable, 1, *words[:3], "--epochs", "none", env={})
    assert broken.returncode != 0 and "with 1 workers" in broken.stderr


@pytest.mark.full
@pytest.mark.parametrize("stack, epochs", [("theano", 5), ("keras3-torch", 3)])
def test_four_workers_learn_as_well_as_one(job, stack, epochs):
    python, env, _ = STACKS[stack]
    accuracy = {}
    for world in (1, 4):
        done = job(
            python, world, ROOT / "examples" / EXAMPLES[stack], "--epochs", epochs, "--sync", env=env, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        accuracy[world] = float(re.findall(r"accuracy ([\d.]+)%", done.stdout)[-1])
    print(accuracy)
    assert accuracy[4] > accuracy[1] - 1

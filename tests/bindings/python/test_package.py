"""The package as a whole: stubs, types, examples in docstrings, and the result of pip install."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, run_with_deadline

SOURCES = ROOT / "bindings" / "python"
# Pyproject.toml has the other settings.
MYPY = [
    sys.executable,
    "-m",
    "mypy",
    "--cache-dir",
    ROOT / "build" / "mypy_cache",
]

DOCTESTS = """
import doctest, importlib, pkgutil, sys
import multiverso, pleiad
optional = {"pleiad.torch", "pleiad.jax", "pleiad.keras", "multiverso.theano_ext"}  # each has tests of its own
tried = 0
for package in (pleiad, multiverso):
    names = [package.__name__] + [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None)]
    for name in names:
        if any(name == other or name.startswith(other + ".") for other in optional) or name.endswith(("._core", "._nn", "._job")):
            continue
        found = doctest.testmod(importlib.import_module(name))
        tried += found.attempted
        if found.failed:
            sys.exit(f"{name}: {found.failed} of {found.attempted} examples failed")
print(tried)
"""


def test_the_examples_in_docstrings_run(python_job):
    done = python_job("alone", "-c", DOCTESTS, env={"PLEIAD_LOG_LEVEL": "off"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 30


@pytest.mark.parametrize("module", ["_core", "_nn", "_job"])
def test_the_stubs_are_those_of_the_module(python_env, tmp_path, module):
    made = tmp_path / f"{module}.pyi"
    env = {**os.environ, **python_env}
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", f"pleiad.{module}", "-o", str(made)]
    subprocess.run(command, check=True, timeout=600, env=env, cwd=tmp_path)
    ruff = [Path(sys.executable).parent / "ruff", "format", "-q", "--config", ROOT / "ruff.toml", made]
    subprocess.run(ruff, check=True, timeout=600)
    assert made.read_text() == (SOURCES / "pleiad" / f"{module}.pyi").read_text(), "run: make stubs"


@pytest.mark.full
def test_the_types_are_right():
    done = run_with_deadline(MYPY, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_a_users_mistake_is_a_type_error(tmp_path):
    """The stubs are precise: mypy finds errors in a user's script."""
    script = tmp_path / "script.py"
    script.write_text(
        "import pleiad\n"
        "with pleiad.init(timeout=3) as s:\n"
        "    s.array(3, clock=5)\n"
        "    s.nothing()\n"
        "    future = s.array(3).add_async([1])\n"
        "    future.result().anything\n"
    )
    done = run_with_deadline([*MYPY, script], timeout=300, cwd=ROOT)
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "error" in line and "script.py" in line] == [
        "3", "4", "6",
    ], done.stdout  # fmt: skip


SMOKE = """
import multiverso as mv, numpy as np, pleiad
mv.init(log_level="off")
table = mv.ArrayTableHandler(1000, np.ones(1000, np.float32))
table.add(np.ones(1000, np.float32))
mv.barrier()
assert (table.get() == 1 + mv.workers_num()).all()
from pleiad import nn
net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
nn.Trainer(net, batch=4).fit(np.ones((8, 3)), np.zeros(8, int), progress=False)
print(pleiad.__file__, mv.workers_num(), flush=True)
mv.shutdown()
"""


PIP = ["-m", "pip", "--disable-pip-version-check"]


@pytest.mark.full
def test_pip_installs_it_into_a_clean_environment(run, mpirun, tmp_path, wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    packages = {"pleiad", "multiverso", "singa", "neon"}
    assert {top for top in tops if not top.startswith("pleiad_train")} == packages
    libraries = {name.removeprefix("pleiad/lib/") for name in names if name.startswith("pleiad/lib/")}
    ours = {
        "libpleiad_base.so.0",
        "libpleiad.so.0",
        "libpleiad_nn.so.0",
        "libpleiad_job.so.0",
        "libmultiverso.so.0",
        "libpleiad_mpi.so",
        "pleiad-hdf5",
    }
    assert libraries == {*ours, "libopenblas.so.0"}
    assert {name for name in names if name.startswith("pleiad/bin/")} == {
        "pleiad/bin/pleiad",
        "pleiad/bin/pleiad-tools",
    }
    assert {
        "pleiad/py.typed",
        "pleiad/_core.pyi",
        "pleiad/nn/net.py",
        "multiverso/tests/test_multiverso.py",
        "singa/model.py",
    } <= set(names)

    python = tmp_path / "clean" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "clean", timeout=120)
    done = run(python, *PIP, "install", "-q", wheel, timeout=300)
    assert done.returncode == 0, done.stderr
    script = tmp_path / "smoke.py"
    script.write_text(SMOKE)
    for n in (1, 2):
        done = mpirun(n, python, script)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"{tmp_path}/clean") == n
    done = run(python, "-m", "pleiad.info", cwd=tmp_path)
    assert "engines    solo, mpi" in done.stdout, done.stderr
    assert run(python, "-m", "multiverso.tests.test_multiverso", cwd=tmp_path).returncode == 0

    # Runs the commands by their path: the environment is not activated.
    bin_ = python.parent
    text = (ROOT / "examples" / "neon" / "mnist_distarray_cnn.yaml").read_text()
    text = text.replace("sample_pct: 100", "sample_pct: 1").replace("num_epochs: 5", "num_epochs: 1")
    (tmp_path / "file.yaml").write_text(text.replace("'./data", f"'{tmp_path}/data"))
    for command in ([bin_ / "neon"], [bin_ / "pleiad", "run"], [bin_ / "pleiad", "launch", "-n", 2, bin_ / "neon"]):
        done = run(*command, tmp_path / "file.yaml", cwd=tmp_path, timeout=600)
        assert done.returncode == 0 and "epoch 1 of 1: cost" in done.stdout, done.stdout + done.stderr
    done = run(bin_ / "pleiad", "explain", "cnn", "-n", 4, "--plan", "spatial", cwd=tmp_path)
    assert done.returncode == 0 and "grid" in done.stdout, done.stdout + done.stderr


# The first statements of a user of each extra, in a world of one.
OLD = "import multiverso as mv; mv.init(log_level='off'); from multiverso.theano_ext import "
EXTRAS = {
    "theano": OLD
    + "sharedvar; import numpy; sharedvar.mv_shared(numpy.ones(3, 'float32')).mv_sync(); import theano; print(theano.__version__)",
    "lasagne": OLD + "lasagne_ext; import lasagne; print(lasagne.__version__)",
    "keras1": OLD + "keras_ext; import keras; print(keras.__version__)",
    "keras2": OLD + "keras_ext; import keras; print(keras.__version__)",
    "keras": "import pleiad.keras, keras; print(keras.__version__)",
    "pytensor": OLD
    + "sharedvar; import numpy; sharedvar.mv_shared(numpy.ones(3, 'float32')).mv_sync(); import pytensor; print(pytensor.__version__)",
    "torch": "import pleiad.torch, torch; print(torch.__version__)",
    "jax": "import pleiad.jax, jax; print(jax.__version__)",
    "singa": "import singa.model, google.protobuf; print(google.protobuf.__version__)",
    "plot": "import pleiad.nn, matplotlib; print(matplotlib.__version__)",
}
VERSIONS = {"theano": "1.0.5", "lasagne": "0.1", "keras1": "1.2.2", "keras2": "2.3.1", "keras": "3."}
VERSIONS |= {"pytensor": "3.", "torch": "2.", "jax": "0."}
VERSIONS |= {"singa": "", "plot": "3."}


@pytest.mark.full
@pytest.mark.parametrize("extra", EXTRAS)
def test_pip_alone_installs_an_extra_into_a_clean_environment(run, tmp_path, wheel, extra):
    python = tmp_path / "clean" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "clean", timeout=120)
    done = run(python, *PIP, "install", "-q", f"{wheel}[{extra}]", timeout=1200)
    assert done.returncode == 0, done.stderr
    if extra == "keras":  # Keras 3 runs on the backend that the user chooses
        assert run(python, *PIP, "install", "-q", f"{wheel}[jax]", timeout=600).returncode == 0
    (tmp_path / "empty").mkdir()
    env = {"KERAS_BACKEND": "jax" if extra == "keras" else "theano", "HOME": str(tmp_path)}
    env["THEANO_FLAGS"] = f"floatX=float32,blas.ldflags=-lopenblas,base_compiledir={tmp_path}/theano"
    done = run(python, "-c", EXTRAS[extra], cwd=tmp_path / "empty", env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1].startswith(VERSIONS[extra])

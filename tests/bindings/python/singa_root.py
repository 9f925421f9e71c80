"""Fixtures of the tests of SINGA's front door: a SINGA root with few records, and worlds that run in it."""

import shutil
import sys

import pytest
from conftest import ROOT

COMPAT = ROOT / "compat" / "singa"
RECORDS = """
import sys
from pleiad import nn
from singa.engine import _job

folder = sys.argv[1]
for part, count in (("train", 1200), ("test", 1000)):
    store = nn.open_dataset("fashion-mnist", part)
    rows = range(count)
    data = store.read("data", rows).reshape(count, 28, 28)
    nn.write_store("kvfile", f"{folder}/examples/mnist/{part}_data.bin", data=data, labels=store.read("label", rows))
_job.generate_cifar10(f"{folder}/generated", 1200, 1000)
for part in ("train", "test"):
    store = nn.open_dataset("cifar10", part, folder=f"{folder}/generated")
    data = store.read("data")
    nn.write_store("kvfile", f"{folder}/examples/cifar10/{part}_data.bin", data=data, labels=store.read("label"), digits=5)
    if part == "train":
        _job.write_mean(f"{folder}/examples/cifar10/image_mean.bin", [3, 32, 32], data.mean(axis=0).reshape(-1).tolist())
"""


@pytest.fixture(scope="session")
def records(tmp_path_factory, run, python_env):
    """A SINGA root with small stores."""
    folder = tmp_path_factory.mktemp("singa")
    shutil.copytree(
        COMPAT, folder, dirs_exist_ok=True, symlinks=False, ignore=shutil.ignore_patterns("*.bin", "checkpoint")
    )
    done = run(sys.executable, "-c", RECORDS, folder, env=python_env, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def root(records, tmp_path):
    """A root for this test only."""
    shutil.copytree(records, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def in_world(run, mpirun, build_dir, python_env):
    """in_world(world, folder, *command) returns the finished job, which ran in that folder. `outputs` is a folder for
    the output of each rank, because lines of several ranks may mix (see mpirun).
    """

    def call(world, folder, *command, env=None, timeout=600, recovery=False, outputs=None):
        env = {
            **python_env,
            "PLEIAD_BUILD": str(build_dir),
            "PYTHON": sys.executable,
            "PLEIAD_LOG_LEVEL": "warn",
            **(env or {}),
        }
        if world == "alone":
            return run(*command, cwd=folder, env=env, timeout=timeout)
        return mpirun(world, "-wdir", folder, *command, env=env, timeout=timeout, recovery=recovery, outputs=outputs)

    return call

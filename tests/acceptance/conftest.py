"""Fixtures of the acceptance suites, which follow the users' documents to the letter."""

import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent


@pytest.fixture
def shell(run, build_dir, python_env, tmp_path):
    """shell(command, cwd=tmp_path, theano=False, env=None, timeout=60) runs a command line as a document shows it.

    `python` and `neon` are on the PATH, and `mpirun -np N` may start more ranks than there are cores. Each rank finds the
    folder for its results in $RESULTS.
    """
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "neon").write_text('#!/bin/sh\nexec python -m neon "$@"\n')
    (commands / "neon").chmod(0o755)
    (tmp_path / "results").mkdir()

    def call(command, *, cwd=tmp_path, theano=False, env=None, timeout=60):
        python = ROOT / ".venv-theano" / "bin" if theano else Path(sys.executable).parent
        if not (python / "python").exists():
            pytest.fail(f"{python}/python does not exist: tools/setup.sh theano makes it", pytrace=False)
        lua = build_dir / "lua"
        settings = {
            **python_env,
            "PATH": f"{commands}:{python}:{os.environ['PATH']}",
            "LUA_PATH": f"{lua}/?.lua;{lua}/?/init.lua;;",
            "PLEIAD_BUILD": str(build_dir),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "RESULTS": str(tmp_path / "results"),
        }
        if theano:
            # Without a C++ compiler Theano runs in NumPy: slower per step, but it compiles nothing.
            settings["THEANO_FLAGS"] = "floatX=float32,cxx=,blas.ldflags=,optimizer=fast_compile"
            settings["KERAS_BACKEND"] = "theano"
        return run("bash", "-c", command, timeout=timeout, cwd=cwd, env={**settings, **(env or {})})

    return call


@pytest.fixture
def results(tmp_path):
    """results(n): what the n ranks wrote, in the order of the ranks."""

    def call(n):
        folder = tmp_path / "results"
        assert sorted(file.name for file in folder.glob("*.json")) == sorted(f"{rank}.json" for rank in range(n))
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(n)]

    return call

"""Acceptance of the SINGA front door: every code block of the users' document on the Python binding, on 1, 2 and 4 ranks.

The scripts run in a copy of the SINGA root, by the document's command bin/singa-run.sh -exec, under mpirun.
"""

import math
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPTS = HERE / "singa_scripts"
RANKS = [1, 2, 4]
# To keep the normal suite short, two ranks there and the rest in the full one.
TWO_FIRST = [pytest.param(1, marks=pytest.mark.full), 2, pytest.param(4, marks=pytest.mark.full)]


def succeeded(finished):
    assert finished.returncode == 0, f"--- stdout\n{finished.stdout}\n--- stderr\n{finished.stderr}"
    return finished.stdout + finished.stderr


def link_data(source, target):
    """Copies a file, except that large data is linked."""
    return os.link(source, target) if str(source).endswith(".bin") else shutil.copy2(source, target)


@pytest.fixture(scope="session")
def root_with_data(tmp_path_factory, run, build_dir, python_env):
    """A SINGA root whose data sets are there, as the first script would make them."""
    root = tmp_path_factory.mktemp("singa") / "root"
    # Files that earlier runs left in the tree stay behind.
    shutil.copytree(
        ROOT / "compat" / "singa", root, ignore=shutil.ignore_patterns("*.bin", "checkpoint", "__pycache__")
    )
    for script in SCRIPTS.glob("*.py"):
        shutil.copy(script, root / "tool" / "python" / "examples" / script.name)
    shutil.copy(SCRIPTS / "small.conf", root / "small.conf")
    env = {**python_env, "PLEIAD_BUILD": str(build_dir), "PYTHON": sys.executable}
    for data in ("mnist", "cifar10"):
        script = f"tool/python/examples/datasets/{data}.py"
        succeeded(run("bin/singa-run.sh", "-exec", script, cwd=root, env=env, timeout=120))
    return root


@pytest.fixture
def root(root_with_data, tmp_path):
    """A fresh copy of the root, in which a test may train."""
    copy = tmp_path / "SINGAROOT"
    shutil.copytree(root_with_data, copy, copy_function=link_data)
    return copy


@pytest.fixture
def singa(shell, root):
    """singa(n, script, *words): the document's command on n ranks, run in SINGAROOT."""

    def call(n, script, *words, **how):
        command = f"bin/singa-run.sh -exec tool/python/examples/{script} {' '.join(words)}"
        env = {"PYTHON": sys.executable, **how.pop("env", {})}
        return shell(f"mpirun -np {n} {command}", cwd=root, env=env, **how)

    return call


def check(result, *, phases, steps=None, keys=("loss",)):
    """A result is {step: [{'acc': ..., 'loss': ...}, ...]}. JSON has made the steps strings."""
    assert result, "the result is empty"
    rows = [row for rows in result.values() for row in rows]
    assert all(step.isdigit() for step in result)
    assert {row["phase"] for row in rows} == set(phases) if "phase" in rows[0] else True
    if steps is not None:
        assert max(int(step) for step in result) <= steps
    for row in rows:
        for key in keys:
            assert math.isfinite(row[key])
        assert 0 <= row.get("acc", 0) <= 1
    return rows


def equal_on_all(found, *names):
    for name in names:
        assert all(rank[name] == found[0][name] for rank in found), f"the ranks return other results: {name}"


@pytest.mark.parametrize("n", RANKS)
def test_mlp_example(singa, results, n):
    succeeded(singa(n, "doc_mlp.py"))
    found = results(n)
    equal_on_all(found, "result")
    rows = check(found[0]["result"], phases=["train", "test"], steps=3, keys=("loss", "acc"))
    assert all(1.5 < row["loss"] < 4 for row in rows)
    assert found[0]["workspace"] == "examples/mnist"
    # "The configuration content is the same as that written in SINGAROOT/examples/mnist/job.conf."
    assert found[0]["same"]


@pytest.mark.parametrize("n", RANKS)
def test_cnn_example(singa, results, n):
    succeeded(singa(n, "doc_cnn.py"))
    found = results(n)
    equal_on_all(found, "result")
    rows = check(found[0]["result"], phases=["train", "test"], steps=2, keys=("loss", "acc"))
    # Filters that begin at 0.0001 say nothing yet: the loss is ln 10.
    assert all(row["loss"] == pytest.approx(math.log(10), abs=0.02) for row in rows)


@pytest.mark.parametrize("n", RANKS)
def test_rbm_stack_and_autoencoder_examples(singa, results, root, n):
    for rbmid in (1, 2, 3, 4):
        succeeded(singa(n, "doc_rbm.py", *([] if rbmid == 3 else ["-rbm", str(rbmid)])))
        found = results(n)
        equal_on_all(found, "result")
        check(found[0]["result"], phases=["train"], steps=2, keys=("se",))
        # The next machine loads the checkpoint of the document's 6000 steps.
        checkpoint = root / found[0]["workspace"] / "checkpoint"
        assert (checkpoint / "step2-worker0").is_file()
        shutil.copy(checkpoint / "step2-worker0", checkpoint / "step6000-worker0")
    succeeded(singa(n, "doc_autoencoder.py"))
    found = results(n)
    equal_on_all(found, "result")
    check(found[0]["result"], phases=["train"], steps=3, keys=("loss",))
    # The decoder shares the encoder's weights.
    assert found[0]["conf"].count("share_from") == 4


def test_rbm_example_names_the_machine_that_is_missing(singa):
    finished = singa(1, "doc_rbm.py")
    assert finished.returncode != 0
    assert re.search(r"rbm[12]/checkpoint/step6000-worker0", finished.stderr), finished.stderr


@pytest.mark.parametrize("n", TWO_FIRST)
def test_device_names_gpus_one_for_each_worker(singa, results, n):
    output = succeeded(singa(n, "doc_gpu.py"))
    for found in results(n):
        # On a machine without GPUs the request is refused or said aloud, and never passed over in silence.
        assert "gpu" in (found["one"] or output).lower()
        for wrong in (found["three"], found["evaluated"]):
            assert wrong is not None and "3" in wrong and ("gpu" in wrong.lower() or "device" in wrong.lower()), wrong


@pytest.mark.parametrize("n", TWO_FIRST)
def test_tips_for_the_mlp(singa, results, n):
    succeeded(singa(n, "doc_tips_mlp.py"))
    found = results(n)
    equal_on_all(found, "loop", "activation", "explicit")
    for name in ("loop", "activation", "explicit"):
        check(found[0][name], phases=["train"], steps=2, keys=("loss", "acc"))
    # Each of twelve parameters is uniform in ±scale.
    assert found[0]["conf"].count("low: -0.05") == found[0]["conf"].count("high: 0.05") == 12


@pytest.mark.parametrize("n", TWO_FIRST)
def test_tips_for_the_cnn(singa, results, n):
    succeeded(singa(n, "doc_tips_cnn.py"))
    found = results(n)
    equal_on_all(found, "result")
    check(found[0]["result"], phases=["train"], steps=2, keys=("loss", "acc"))
    conf = found[0]["conf"]
    # The first layer took its own copy of parw: update(std=0.01) is for the layers after it.
    assert conf.count("std: 0.0001") == 1 and conf.count("std: 0.01") == 3
    assert conf.count("lr_scale: 2") == 2 and conf.count("wd_scale: 250") == 1
    assert conf.count("kernel: 3") == 3 or conf.count("kernel_x: 3") == 3


@pytest.mark.parametrize("n", TWO_FIRST)
def test_data_layers_added_explicitly(singa, results, root, n):
    os.link(root / "examples/mnist/train_data.bin", root / "train.bin")
    os.link(root / "examples/mnist/test_data.bin", root / "test.bin")
    succeeded(singa(n, "doc_data.py"))
    found = results(n)
    for name in ("added", "store"):
        equal_on_all(found, name)
        check(found[0][name], phases=["train", "test"], steps=4, keys=("loss", "acc"))
    conf = found[0]["conf"]
    assert 'path: "train.bin"' in conf and 'path: "test.bin"' in conf
    assert "batchsize: 64" in conf and "batchsize: 100" in conf


def test_load_data_as_the_tip_unpacks_it(singa, results):
    succeeded(singa(2, "doc_two_values.py"))
    check(results(2)[0]["result"], phases=["train", "test"], keys=("loss", "acc"))


@pytest.mark.parametrize("n", RANKS)
def test_cases_to_run(singa, results, root, n):
    succeeded(singa(n, "doc_cases.py"))
    found = results(n)
    equal_on_all(found, "train", "validate", "test")
    check(found[0]["train"], phases=["train"], steps=20, keys=("loss", "acc"))
    phases = {row["phase"] for rows in found[0]["validate"].values() for row in rows}
    assert phases in ({"train", "validate"}, {"train", "val"}, {"train", "validation"})
    check(found[0]["test"], phases=["train", "test"], steps=100, keys=("loss", "acc"))
    tested = [row for row in found[0]["test"]["100"] if row["phase"] == "test"]
    assert tested and tested[-1]["acc"] > 0.5
    # Test only: "assume a checkpoint exists after training".
    assert (root / "examples/mnist/checkpoint/step100-worker0").is_file()
    succeeded(singa(n, "doc_cases.py", "test-only"))
    found = results(n)
    equal_on_all(found, "test_only")
    rows = check(found[0]["test_only"], phases=["test"], keys=("loss", "acc"))
    assert len(rows) == 1 and rows[0]["acc"] == pytest.approx(tested[-1]["acc"], abs=0.1)


@pytest.mark.parametrize("n", TWO_FIRST)
def test_every_function_that_sets_parameters(singa, results, n):
    succeeded(singa(n, "doc_parameters.py"))
    found = results(n)
    equal_on_all(found, "result", "params")
    conv, mean, constant, default = found[0]["params"]
    near = lambda **fields: pytest.approx(fields, rel=1e-6)  # noqa: E731
    take = lambda param, *names: {name: param[name] for name in names}  # noqa: E731
    assert [param["init"] for param in conv] == ["kGaussian", "kConstant"]
    assert take(conv[0], "lr", "wd", "mean", "std") == near(lr=2, wd=10, mean=0, std=0.1)
    assert take(conv[1], "lr", "wd", "value") == near(lr=1, wd=0, value=0)
    assert [param["init"] for param in mean] == ["kGaussian", "kConstant"]
    assert take(mean[0], "lr", "wd", "mean", "std") == near(lr=2, wd=10, mean=1, std=0.1)
    assert [param["init"] for param in constant] == ["kConstant", "kConstant"]
    assert take(constant[0], "lr", "wd") == near(lr=1, wd=1)
    assert constant[1]["value"] == 1
    # "Weight is 'gaussian' with mean=0, std=0.01 at default. Bias is 'constant' with value=0 at default."
    assert [param["init"] for param in default] == ["kGaussian", "kConstant"]
    assert take(default[0], "lr", "wd", "mean", "std") == near(lr=1, wd=1, mean=0, std=0.01)
    assert default[1]["value"] == 0


@pytest.mark.parametrize("n", RANKS)
def test_cluster_topologies(singa, results, n):
    succeeded(singa(n, "doc_cluster.py"))
    for found in results(n):
        for name in ("sandblaster", "downpour", "allreduce", "hogwild"):
            rows = check(found[name], phases=["train", "test"], steps=20, keys=("loss", "acc"))
            tested = [row["loss"] for row in rows if row["phase"] == "test"]
            assert tested[-1] < tested[0], f"{name} does not learn: {tested}"


@pytest.mark.parametrize("n", TWO_FIRST)
def test_a_jobproto_passed_to_the_driver_trains(singa, results, root, n):
    succeeded(singa(n, "doc_jobproto.py"))
    assert [found["name"] for found in results(n)] == ["small"] * n
    assert (root / "examples/small/checkpoint/step20-worker0").is_file()


@pytest.mark.parametrize("n", RANKS)
def test_a_protobuf_job_runs_resumes_and_tests(shell, root, n):
    run = f"mpirun -np {n} bin/singa-run.sh -conf small.conf"
    output = succeeded(shell(run, cwd=root))
    assert "Train step 10" in output and "Test step 0" in output and "Test step 10" in output
    for step in (10, 20):
        assert (root / f"examples/small/checkpoint/step{step}-worker0").is_file()
    conf = root / "small.conf"
    conf.write_text(conf.read_text().replace("train_steps: 20", "train_steps: 40"))
    output = succeeded(shell(f"{run} -resume", cwd=root))
    assert "Train step 30" in output and "Train step 0:" not in output and "Train step 10:" not in output
    assert (root / "examples/small/checkpoint/step40-worker0").is_file()
    before = sorted(file.name for file in (root / "examples/small/checkpoint").glob("step*"))
    # "Specify checkpoint_path if a user wants to run SINGA only for testing."
    conf.write_text(conf.read_text() + 'checkpoint_path: "examples/small/checkpoint/step40-worker0"\n')
    output = succeeded(shell(f"{run} -test", cwd=root))
    assert "acc" in output and "Train step" not in output
    assert sorted(file.name for file in (root / "examples/small/checkpoint").glob("step*")) == before


def test_layout_of_the_python_code(root):
    python = root / "tool" / "python"
    for name in (
        "pb2/job_pb2.py",
        "singa/model.py",
        "singa/layer.py",
        "singa/parameter.py",
        "singa/initialization.py",
        "singa/utils/utility.py",
        "singa/utils/message.py",
        "examples/cifar10_cnn.py",
        "examples/mnist_mlp.py",
        "examples/mnist_rbm1.py",
        "examples/mnist_ae.py",
        "examples/datasets/cifar10.py",
        "examples/datasets/mnist.py",
    ):
        assert (python / name).is_file(), name


def test_fit_sets_the_jobs_algorithm_and_steps(shell, root):
    # "Model class has jobconf"; "fit: set Training data and parameter values, set Train_one_batch component".
    script = root / "tool/python/examples/doc_jobconf.py"
    script.write_text(
        "import sys\nfrom examples.datasets import mnist\nfrom singa.model import *\n"
        "X_train, X_test, workspace = mnist.load_data()\nm = Sequential('mlp', sys.argv)\n"
        "m.add(Dense(10, activation='softmax'))\n"
        "m.compile(loss='categorical_crossentropy', optimizer=SGD(lr=0.01), cluster=Cluster(workspace))\n"
        "assert m.jobconf.cluster.workspace == workspace and m.jobconf.updater.learning_rate.base_lr > 0\n"
        "m.fit(X_train, nb_epoch=3)\n"
        "print('steps', m.jobconf.train_steps, 'algorithm', m.jobconf.train_one_batch.alg)\n"
    )
    output = succeeded(shell(f"bin/singa-run.sh -exec {script}", cwd=root, env={"PYTHON": sys.executable}))
    assert "steps 3 algorithm 1" in output  # kBP


@pytest.mark.full
@pytest.mark.parametrize("script", ["cifar10_cnn.py", "mnist_mlp.py"])
def test_example_scripts_as_the_document_launches_them(shell, root, script):
    command = f"bin/singa-run.sh -exec tool/python/examples/{script}"
    output = succeeded(shell(command, cwd=root, env={"PYTHON": sys.executable}, timeout=600))
    assert "Train step" in output and "Test step" in output

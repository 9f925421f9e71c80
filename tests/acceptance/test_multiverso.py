"""Acceptance of the Multiverso front door: every line of the users' three documents (the Python tutorial, the older Python
page and the Torch binding), on 1, 2 and 4 ranks."""

import collections
import math
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPTS = HERE / "multiverso_scripts"
RANKS = [1, 2, 4]


def succeeded(finished):
    assert finished.returncode == 0, f"--- stdout\n{finished.stdout}\n--- stderr\n{finished.stderr}"
    return finished.stdout


@pytest.fixture
def script(shell):
    """script(n, name): runs a script by the document's launcher."""

    def call(n, name, *words, **how):
        return succeeded(shell(f"mpirun -np {n} python {SCRIPTS / name} {' '.join(words)}", **how))

    return call


@pytest.mark.parametrize("n", RANKS)
def test_typical_usage_prints_workers_ids_and_one_master(script, n):
    lines = collections.Counter(script(n, "typical.py").split("\n"))
    del lines[""]
    wanted = {str(n): n, "True": 1, "validation results": 1, **{str(id): 1 for id in range(n)}}
    if n > 1:
        wanted["False"] = n - 1
    assert lines == wanted


def test_a_script_runs_without_a_launcher(shell):
    assert succeeded(shell(f"python {SCRIPTS}/typical.py")).split("\n") == ["1", "0", "True", "validation results", ""]


@pytest.mark.parametrize("n", RANKS)
def test_only_the_masters_initial_values_count_and_async_gets_agree_after_a_barrier(script, results, n):
    script(n, "asynchronous.py")
    for me, found in enumerate(results(n)):
        assert found["workers"] == n
        assert found["initial"] == list(range(10))
        assert found["shape"] == [10]
        assert found["initial_matrix"] == [[5] * 4] * 3
        # Its own adds so far and no more than all adds of all workers are in what a worker sees.
        adds = sum(other + 2 for other in range(n))
        assert all(0 <= value <= adds for value in found["seen"])
        assert found["seen"] == sorted(found["seen"])
        assert found["final"] == [value + adds for value in range(10)]
        ones = n * (n + 1) / 2
        assert found["final_matrix"] == [[5] * 4, [5 + ones] * 4, [5] * 4]
        assert found["rows"] == [[5] * 4, [5 + ones] * 4]
        assert len(found["seen"]) == me + 2


@pytest.mark.parametrize("n", RANKS)
def test_every_get_of_a_sync_server_returns_exactly_the_same(script, results, n):
    script(n, "synchronous.py")
    found = results(n)
    assert all(rank["rounds"] == found[0]["rounds"] for rank in found)
    # Each get has all workers' adds of its round.
    assert found[0]["first"] == pytest.approx([0.1 * n * (n + 1) / 2] * 7, rel=1e-6)
    for step, (_, rows) in enumerate(found[0]["rounds"]):
        sum = (step + 1) * n * (n + 1) / 2
        assert rows == [[sum] * 3, [0] * 3, [0] * 3, [0] * 3, [sum] * 3]


@pytest.mark.parametrize("n", RANKS)
def test_an_async_server_blocks_no_worker(script, results, n):
    script(n, "asynchronous_alone.py")
    for me, found in enumerate(results(n)):
        assert found["final"] == [6] * 4
        assert 0 <= found["last"] <= 6 if me == n - 1 else found["last"] == 0


@pytest.mark.parametrize("n", RANKS)
def test_the_bindings_own_test_example_passes(shell, build_dir, n):
    example = build_dir / "python" / "multiverso" / "tests" / "test_multiverso.py"
    finished = shell(f"mpirun -np {n} python {example}")
    succeeded(finished)


@pytest.mark.parametrize("n", RANKS)
def test_each_worker_names_its_own_gpu_before_theano_is_imported(script, results, n):
    script(n, "many_gpus.py")
    flags = [found["flags"] for found in results(n)]
    assert flags == [f"floatX=float32,device=gpu{worker},lib.cnmem=1" for worker in range(n)]


def test_given_theano_flags_are_kept_and_theano_is_imported_after_init(script, results):
    script(2, "many_gpus.py", theano=True)
    for found in results(2):
        assert found["flags"].startswith("floatX=float32,cxx=") and found["floatX"] == "float32"


@pytest.mark.parametrize("n", RANKS)
def test_shared_variables_of_theano(script, results, n):
    script(n, "theano_shared.py", theano=True)
    ones = n * (n + 1) / 2
    for me, found in enumerate(results(n)):
        assert found["same_kind"]
        assert found["initial"] == [[[0] * 3] * 6, [1, 2, 3], [7] * 3]
        assert found["before"] == 2 * (me + 1)
        assert me + 1 <= found["after_own"] <= ones
        assert found["b_untouched"] == [2, 3, 4]  # mv_sync of W is of W alone
        assert found["all_changes"] == [[ones] * 3] * 6
        assert found["final"] == [[[2 * ones] * 3] * 6, [1 + 2 * n, 2 + 2 * n, 3 + 2 * n], [7] * 3]
        assert found["seen_by_graph"] == 4 * ones
        assert found["added"] == [n] * 3


def numbers(value):
    return [x for part in value for x in numbers(part)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("n", RANKS)
def test_parameter_managers_of_lasagne(script, results, n):
    script(n, "lasagne_manager.py", theano=True)
    found = results(n)
    for prefix in ("", "old_"):
        master = numbers(found[0][prefix + "own"])
        assert len(master) == 5 * 4 + 4 + 4 * 2 + 2
        changes = [0.0] * len(master)
        for rank in found:
            assert numbers(rank[prefix + "initial"]) == master
            trained = numbers(rank[prefix + "trained"])
            assert trained != master
            changes = [sum + after - before for sum, after, before in zip(changes, trained, master)]
        if n > 1:
            assert numbers(found[1][prefix + "own"]) != master
        wanted = [before + change for before, change in zip(master, changes)]
        for rank in found:
            assert numbers(rank[prefix + "final"]) == pytest.approx(wanted, rel=1e-4, abs=1e-5)
            assert rank[prefix + "final"] == found[0][prefix + "final"]


@pytest.mark.parametrize("n", RANKS)
def test_the_callback_of_keras_syncs_every_mini_batch(script, results, n):
    script(n, "keras_callback.py", "sync", theano=True)
    found = results(n)
    for rank in found:
        assert rank["begun"] == found[0]["own"]  # the master's initial model
        assert len(rank["batches"]) == 2 * 40 / 8
        assert rank["batches"] == found[0]["batches"]  # the same model on all after every mini-batch
        assert rank["validated"] == [True, True]
    assert len({tuple(weights) for weights in found[0]["batches"]}) == 10  # and it learns


def test_the_callback_of_keras_runs_on_an_async_server(script, results):
    script(2, "keras_callback.py", theano=True)
    found = results(2)
    assert found[1]["begun"] != found[1]["own"]  # the master's model, and changes of a worker that began earlier
    for rank in found:
        assert len(rank["batches"]) == 10
        assert all(math.isfinite(weight) for weights in rank["batches"] for weight in weights)


@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full), 4])
def test_logistic_regression_example(shell, n):
    # The document's command; the options shorten it.
    command = f"mpirun -np {n} python ./examples/theano/logistic_regression.py --epochs 1 --samples 2000"
    output = succeeded(shell(command, cwd=ROOT, theano=True))
    assert "accuracy" in output


@pytest.mark.full
def test_logistic_regression_example_as_the_document_runs_it(shell):
    command = "mpirun -np 4 python ./examples/theano/logistic_regression.py"
    output = succeeded(shell(command, cwd=ROOT, theano=True, timeout=300))
    assert "accuracy" in output


@pytest.mark.parametrize("n", RANKS)
def test_torch_binding(shell, n):
    output = succeeded(shell(f"mpirun -np {n} luajit {SCRIPTS}/torch_binding.lua {n}"))
    assert sorted(output.split("\n")) == ["", *(f"worker {me} of {n} is content" for me in range(n))]

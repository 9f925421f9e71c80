"""Names, import orders and code blocks of scripts written for Multiverso's Python binding, on the supported stack."""

import os
import sys

import pytest
from conftest import ROOT

OLD = ROOT / ".venv-theano" / "bin" / "python"
BLOCK = (ROOT / "tests" / "bindings" / "python" / "frameworks" / "blocks" / "multi_gpu.txt").read_text()


@pytest.fixture
def script(run, python_env, tmp_path):
    """script(python, text, launcher=[]) returns the finished job. THEANO_FLAGS is not set, and Theano's caches are the
    test's own.
    """

    def call(python, text, launcher=(), timeout=120):
        file = tmp_path / "script.py"
        file.write_text(text)
        env = {**python_env, "HOME": str(tmp_path)}
        # run() adds to this process's environment, which may set THEANO_FLAGS.
        words = ["env", "-u", "THEANO_FLAGS", "-u", "THEANORC", *launcher, python, file]
        return run(*words, env=env, timeout=timeout)

    return call


def test_the_names_of_the_original_exist(script):
    done = script(
        sys.executable,
        """
import numpy
import multiverso as mv
from multiverso import tables, utils
from multiverso.theano_ext import sharedvar
from multiverso.theano_ext.keras_ext.param_manager import KerasParamManager
mv.init()
assert isinstance(mv.ArrayTableHandler(3), tables.TableHandler)
assert isinstance(mv.MatrixTableHandler(3, 2), tables.TableHandler)
assert sharedvar.mv_shared.shared_vars == []
assert utils.convert_data([1, 2.5]).dtype == numpy.float32
assert utils.Loader.get_lib() is utils.Loader.get_lib() and utils.Loader.get_lib().MV_NumWorkers
mv.shutdown()
""",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_test_that_the_document_names_runs(run, pleiad, python_env, ranks):
    file = ROOT / "bindings" / "python" / "multiverso" / "test.py"
    for words in (["-m", "multiverso.test"], [file]):
        done = run(pleiad, "launch", "-n", ranks, sys.executable, *words, env=python_env, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("1 runs passed") == ranks


IMPORTS = {
    "theano": ["import theano", "from multiverso.theano_ext import sharedvar, param_manager"],
    "lasagne": ["import lasagne", "from multiverso.theano_ext.lasagne_ext import param_manager"],
    "keras": ["import keras", "from multiverso.theano_ext.keras_ext.callbacks import MVCallback"],
}


@pytest.mark.parametrize(
    "package, order",
    [
        pytest.param("theano", 1),
        pytest.param("theano", -1),
        pytest.param("lasagne", -1, marks=pytest.mark.full),
        pytest.param("keras", -1, marks=pytest.mark.full),
        pytest.param("lasagne", 1, marks=pytest.mark.full),
        pytest.param("keras", 1, marks=pytest.mark.full),
    ],
)
def test_the_packages_can_be_imported_in_either_order(script, package, order):
    # The import makes the old packages work on this Python.
    first = "" if package == "theano" else "import multiverso\n"
    done = script(OLD, first + "\n".join(IMPORTS[package][::order]) + "\nprint('imported')\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported"


def test_the_documents_block_for_gpus_runs_as_written_without_one(script):
    end = "\nimport theano\nprint(theano.config.device, theano.config.floatX)\nmv.shutdown()\n"
    done = script(OLD, "import os\n" + BLOCK + end)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "cpu float32"
    assert done.stderr.count("THEANO_FLAGS asks for gpu0; no such CUDA device was found") == 1


def test_a_device_of_the_old_back_end_becomes_one_of_the_new_where_there_is_one(script):
    done = script(
        sys.executable,
        """
from multiverso.theano_ext import compat
compat._has_cuda_device = lambda number: number < 2
print(compat._with_new_devices(["floatX=float32", "device=gpu1", "lib.cnmem=0.8"]))
print(compat._with_new_devices(["floatX=float32", "device=gpu2", "lib.cnmem=0.8"]))
print(compat._with_new_devices(["device=cpu", "lib.cnmem=1"]))
""",
    )
    assert done.stdout.splitlines() == [
        "['floatX=float32', 'device=cuda1', 'gpuarray.preallocate=0.8']",
        "['floatX=float32', 'device=cpu']",
        "['device=cpu', 'lib.cnmem=1']",
    ], done.stderr
    assert done.stderr.count("gpu2") == 1


def test_theano_runs_a_scan_without_its_c_code(script):
    done = script(
        OLD,
        """
import multiverso, theano
try: from theano.scan_module import scan_perform_ext
except ImportError as error: print(error)
""",
    )
    assert "does not compile on Python 3.11" in done.stdout, done.stderr


@pytest.mark.full
def test_a_scan_compiles_and_runs(script):
    done = script(
        OLD,
        """
import multiverso, numpy, theano
x = theano.tensor.vector()
sums, _ = theano.scan(lambda a, b: a + b, sequences=x, outputs_info=numpy.asarray(0, theano.config.floatX))
print(theano.function([x], sums)(numpy.arange(5, dtype=theano.config.floatX)))
""",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[", "0.", "1.", "3.", "6.", "10.]"]


def test_the_pages_set_no_flags_that_defeat_the_block():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for line in page.read_text().splitlines():
            assert "THEANO_FLAGS=" not in line and "export THEANO_FLAGS" not in line, f"{page.name}: {line}"
    assert os.path.exists(OLD.parent.parent / "theanorc"), "tools/setup.sh theano writes it"

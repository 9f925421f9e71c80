"""neon's files: every form compared with a reference in NumPy, every field, user-defined layers, data sets, invalid
files.
"""

import os
import sys
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = Path(__file__).parent
EXAMPLES = ROOT / "examples" / "neon"


@pytest.fixture
def script(run, pleiad, python_env):
    """script(name, words..., ranks=4) returns the output of a script that all ranks have finished."""

    def start(name, *words, ranks=1, timeout=600):
        launch = [pleiad, "launch", "-n", ranks] if ranks > 1 else []
        env = {
            **python_env,
            "PLEIAD_LOG_LEVEL": "error",
            "OMP_NUM_THREADS": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PATH": f"{Path(pleiad).parent}:{os.environ['PATH']}",
        }
        done = run(*launch, sys.executable, FOLDER / name, *words, timeout=timeout, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return start


def test_each_form_agrees_with_the_formulas_in_numpy(script):
    assert script("neon_forms.py").stdout.count(" agrees") == 11


@pytest.mark.parametrize("ranks", [2, 4, pytest.param(16, marks=pytest.mark.full)])
def test_dist_forms_agree_with_the_formulas_on_a_grid(script, ranks):
    assert script("neon_forms.py", "convnet_dist", "gb_dist", ranks=ranks).stdout.count(" agrees") == 2


def test_forms_without_dist_run_on_two_ranks(script):
    """The batch or the images are split over the ranks."""
    forms = ["mlp_with_biases_as_inputs", "mlp_without_biases", "autoencoder", "rbm", "dbn", "convnet", "gb"]
    assert script("neon_forms.py", *forms, ranks=2).stdout.count(" agrees") == len(forms)


def test_fields_have_their_effect_or_are_refused_with_their_line(script):
    assert "have their effect or are refused" in script("neon_refused.py").stdout


@pytest.mark.parametrize("ranks", [1, 2, 4, pytest.param(16, marks=pytest.mark.full)])
def test_user_defined_layers_run_in_the_engines_net(script, ranks):
    """The document's layer in GBDist with and without pre-training; shared weights, rules, order, checkpoints."""
    done = script("neon_own.py", ranks=ranks)
    assert DETERMINISTIC in done.stdout, done.stdout


# Two costs in deterministic mode: bit-identical at every number of ranks.
DETERMINISTIC = "layers of one's own work ['0x1.2602a8503270dp+0', '0x1.2bc4ec88948a6p+0']"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_data_sets_groups_and_predictions(script, tmp_path, ranks):
    assert script("neon_data.py", tmp_path, ranks, ranks=ranks).stdout.count("data sets work") == ranks


@pytest.fixture
def neon(run, pleiad, python_env, tmp_path):
    def start(text, *words, ranks=1):
        (tmp_path / "file.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        launch = [pleiad, "launch", "-n", ranks] if ranks > 1 else []
        env = {**python_env, "PLEIAD_LOG_LEVEL": "error", "OMP_NUM_THREADS": "1"}
        env["PATH"] = f"{Path(pleiad).parent}:{os.environ['PATH']}"
        command = [*launch, sys.executable, "-m", "neon", "file.yaml", *words]
        return run(*command, timeout=600, env=env, cwd=tmp_path)

    return start


IRIS = """
!obj:neon.experiments.fit_predict_err.FitPredictErrorExperiment {
  backend: &be !obj:neon.backends._numpy.Numpy {rng_seed: 0},
  logging: {level: 20, format: '%(message)s'},
  datasets: [!obj:neon.datasets.iris.Iris {}],
  model: !obj:neon.models.mlp.MLP {
    num_epochs: 3, batch_size: 30, learning_rate: 0.1, cost: !obj:neon.transforms.cross_entropy.CrossEntropy {},
    layers: [!obj:neon.models.layer.Layer {name: o, nin: 5, nout: 3, activation: !obj:neon.transforms.logistic.Logistic {},
      weight_init: {type: normal, loc: 0.0, scale: 0.1}}],
  },
}"""


MISTAKES = """
from neon.layers import FCLayer, WeightLayer
from neon.util.distarray import comm

class Forgetful(FCLayer):
    def bprop(self, error, inputs, epoch, momentum):
        self.berror = error @ self.weights

class Summing(FCLayer):
    def update(self, gradients, momentum):
        super().update([comm.all_reduce(gradient) for gradient in gradients], momentum)

    def bprop(self, error, inputs, epoch, momentum):
        super().bprop(error, inputs, epoch, momentum)

class Writing(FCLayer):
    def bprop(self, error, inputs, epoch, momentum):
        self.weights -= 0.1
"""


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("Forgetful", 1, ['layer "o"', "self.update"]),
        ("Summing", 2, ['layer "o"', "all_reduce", "the engine sums"]),
        ("Writing", 1, ["read-only"]),
    ],
)
def test_a_layer_that_would_train_wrongly_is_refused(neon, tmp_path, name, ranks, words):
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    text = IRIS.replace("layer.Layer {name: o, nin: 5,", f"layer.{name} {{name: o, nin: 4,")
    done = neon(text, "--import", "mistakes", ranks=ranks)
    assert done.returncode == 1, done.stdout
    assert all(word in done.stderr for word in words), done.stderr


def test_gpu_back_ends_run_here_after_one_notice(neon):
    for name in ("_cudanet.Cudanet", "_cudamat.Cudamat"):
        done = neon(IRIS.replace("_numpy.Numpy", name), ranks=2)
        assert done.returncode == 0, done.stderr
        notices = [line for line in done.stderr.splitlines() if name.rpartition(".")[2] in line]
        assert len(notices) == 1 and "uses the processor" in notices[0], done.stderr
        assert done.stdout.count("cost ") == 3


BAD = {
    "no_batch": (IRIS.replace("batch_size: 30", "batch_size: 0"), ["no_batch.yaml:7:", "batch_size", "received 0"]),
    "negative_epochs": (
        IRIS.replace("num_epochs: 3", "num_epochs: -3"),
        ["negative_epochs.yaml:7:", "num_epochs", "received -3"],
    ),
    "nul": (IRIS.replace("batch_size: 30", "batch_size: 3\0"), ["nul.yaml:7:", "0x00"]),
    "no_text": (b"\xff\xfe\x00", ["no_text.yaml", "cannot read the file"]),
    "deep": ("[" * 5000 + "]" * 5000, ["deep.yaml:1:", "nested"]),
    "generation": ("model: cnn\nepochs: 10\nbackend: gpu\n", ["neon 0.4 to 0.8", "1.0"]),
    "empty": ("", ["expected an experiment"]),
    "fixed_point": (
        IRIS.replace("_numpy.Numpy ", "fixedpoint.FixedPoint "),
        ["fixed_point.yaml:3:", "FixedPoint", "docs/neon.md"],
    ),
}


def test_bad_input_is_one_line(run, python_env, tmp_path):
    """One process runs the command for all files, because its start takes longer than the rest."""
    for name, (text, _) in BAD.items():
        (tmp_path / f"{name}.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    program = (
        "import sys; from neon.cli import main\n"
        "for name in sys.argv[1:]:\n"
        "    print('ended with', main([name + '.yaml']), file=sys.stderr, flush=True)\n"
    )
    done = run(sys.executable, "-c", program, *BAD, env={**python_env, "PLEIAD_LOG_LEVEL": "error"}, cwd=tmp_path)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 0 and len(lines) == 2 * len(BAD), done.stderr
    for (_, words), told, ended in zip(BAD.values(), lines[::2], lines[1::2], strict=True):
        assert all(word in told for word in words) and ended == "ended with 1", done.stderr


def test_hostile_yaml_is_refused_in_one_line_that_names_the_file(script):
    assert script("neon_hostile.py", timeout=60).stdout.count(" is refused") == 10

"""pleiad.nn: every case in worlds of 1, 2 and 4 ranks, its page, its example, and Ctrl-C while a rank is missing."""

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from job_of_cases import check_cases
from run_page import PIECE, sections

FOLDER = Path(__file__).parent
PAGE = ROOT / "docs" / "nn_python.md"
HEADINGS = [heading for heading, body in sections(PAGE.read_text()).items() if PIECE.search(body)]


@pytest.mark.parametrize("world", ["alone", 2, 4])
def test_cases(python_job, world):
    check_cases(python_job, "nn_cases.py", world)


@pytest.mark.parametrize("world", ["alone", 2, pytest.param(4, marks=pytest.mark.full)])
def test_epochs(python_job, world, tmp_path):
    check_cases(python_job, "nn_epochs_cases.py", world, env={"FOLDER": str(tmp_path)})


@pytest.mark.parametrize("world", ["alone", 2, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize("script", ["nn_rules_cases.py", "nn_inputs_cases.py", "nn_own_cases.py"])
def test_rules_inputs_and_own_layers(python_job, script, world, tmp_path):
    check_cases(python_job, script, world, env={"FOLDER": str(tmp_path)})


def test_whole_nets_have_the_losses_of_pytorch(python_job):
    check_cases(python_job, "nn_torch_cases.py", "alone")


@pytest.mark.parametrize("world", ["alone", 2])
def test_checkpoints_stores_plans_and_event_files(python_job, world, tmp_path):
    check_cases(python_job, "nn_saving_cases.py", world, env={"FOLDER": str(tmp_path)})


def test_numbers_go_to_pytorch_and_back(python_job, pleiad):
    check_cases(python_job, "nn_portable_cases.py", "alone", env={"PLEIAD": str(pleiad)})


@pytest.mark.parametrize("world", ["alone", 2])
def test_the_page(python_job, world, tmp_path):
    """Runs the blocks of each section in a folder that the ranks share."""
    script = tmp_path / "page.py"
    folders = {heading: tmp_path / f"section{number}" for number, heading in enumerate(HEADINGS)}
    for folder in folders.values():
        folder.mkdir()
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(FOLDER)!r})\n"
        "import run_page\n"
        f"for heading, folder in {[(heading, str(folder)) for heading, folder in folders.items()]!r}:\n"
        f"    blocks = run_page.run({str(PAGE)!r}, heading, folder)\n"
        "    sys.stdout.flush()\n"
        "    os.write(1, f'\\n{heading} {blocks}\\n'.encode())  # one write: no other rank's words come between\n"
    )
    done = python_job(world, script, timeout=180, env={"PLEIAD_LOG_LEVEL": "error"})
    assert done.returncode == 0, done.stdout + done.stderr
    for heading in HEADINGS:
        blocks = sections(PAGE.read_text())[heading].count("```python")
        assert done.stdout.count(f"{heading} {blocks}\n") == (1 if world == "alone" else world), done.stdout


def test_the_example_learns_and_leaves_pictures(run, pleiad, python_env, tmp_path):
    words = [ROOT / "examples" / "nn" / "fashion_cnn.py", "--samples", 3000, "--epochs", 2, "--out", tmp_path]
    done = run(pleiad, "launch", "-n", 2, sys.executable, *words, timeout=180, env=python_env)
    assert done.returncode == 0, done.stdout + done.stderr
    (accuracy,) = re.findall(r"accuracy ([\d.]+)%; pictures", done.stdout)  # only rank 0 prints
    assert float(accuracy) > 60
    for name in ("fashion_cnn_curves.png", "fashion_cnn_filters.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "fashion_cnn.csv").read_text().splitlines()) == 5


def test_ctrl_c_ends_a_wait_for_a_peer_that_does_not_come(python_job):
    done = python_job(2, FOLDER / "nn_stuck.py", timeout=60)
    assert "rank 0: KeyboardInterrupt" in done.stdout, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize(("script", "least"), [("fashion_mlp", 88), ("fashion_cnn", 90)])
def test_fashion_mnist_within_five_minutes(python_job, tmp_path, script, least):
    path = ROOT / "examples" / "nn" / f"{script}.py"
    done = python_job("alone", path, "--out", tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.findall(r"accuracy ([\d.]+)%; pictures", done.stdout)[0]) >= least


def test_without_its_libraries_the_module_names_what_it_needs(run, python_env):
    code = "import sys; sys.modules['pleiad._nn'] = None; import pleiad.nn"
    done = run(sys.executable, "-c", code, env=python_env)
    assert done.returncode == 1 and "needs the libraries oneDNN, OpenBLAS" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("world", ["alone", 2])
def test_the_example_of_machines_learns_layer_by_layer(python_job, world, tmp_path):
    # Compared by the number of products, not by time, which other processes may affect: a pre-trained net of P and E
    # epochs has computed the products of about 1.3 P + E epochs of its auto-encoder, and the other net gets more than
    # that.
    small = ["--samples", 1200, "--pretrain", 2, "--epochs", 2, "--against", 6]
    words = small if world == 2 else ["--samples", 20000, "--against", 14]
    script = ROOT / "examples" / "nn" / "fashion_rbm.py"
    done = python_job(world, script, *words, "--out", tmp_path, timeout=900, env={"PLEIAD_LOG_LEVEL": "error"})
    assert done.returncode == 0, done.stdout + done.stderr
    falls = re.findall(r"machine \d: squared error ([\d.]+) -> ([\d.]+)", done.stdout)
    assert len(falls) == 4 and all(float(last) < float(first) for first, last in falls), done.stdout
    pretrained, random = map(float, re.findall(r"(?:pre-trained|random weights) ([\d.]+) after", done.stdout))
    assert pretrained < random, done.stdout
    assert all((tmp_path / f"fashion_rbm_{name}.png").stat().st_size > 5000 for name in ("curves", "reconstructions"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("world", "words", "most"), [(2, ["--epochs", 4, "--characters", 40000], 2.0), ("alone", [], 1.1)]
)
def test_the_example_of_text_learns_its_grammar(python_job, world, words, most):
    script = ROOT / "examples" / "nn" / "char_rnn.py"
    done = python_job(world, script, *words, timeout=900, env={"PLEIAD_LOG_LEVEL": "error"})
    assert done.returncode == 0, done.stdout + done.stderr
    shares = [float(share) for share in re.findall(r"([\d.]+) of the entropy", done.stdout)]
    assert shares[-1] < most and shares[-1] < shares[0], done.stdout

"""neon's front door: YAML files, experiments on one process and on a grid of them, and the document's recipe."""

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples" / "neon"
FOLDER = Path(__file__).parent


@pytest.fixture
def neon(run, pleiad, python_env, tmp_path):
    """neon(words..., ranks=4): runs the command in a folder of its own."""

    def start(*words, ranks=1, timeout=120, cwd=tmp_path):
        launch = [pleiad, "launch", "-n", ranks] if ranks > 1 else []
        env = {**python_env, "PLEIAD_LOG_LEVEL": "error", "OMP_NUM_THREADS": "1"}
        env["PATH"] = f"{Path(pleiad).parent}:{__import__('os').environ['PATH']}"
        return run(*launch, sys.executable, "-m", "neon", *words, timeout=timeout, env=env, cwd=cwd)

    return start


def small(tmp_path, name, **changes):
    """An example with less to do."""
    text = (EXAMPLES / name).read_text()
    for old, new in {"sample_pct: 100": "sample_pct: 1", "num_epochs: 5": "num_epochs: 2", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text)
    return path


def costs(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(number) for number in re.findall(r"cost ([\d.e+-]+)$", done.stdout, re.M)]


def test_the_number_of_ranks_does_not_change_the_training(neon, tmp_path):
    alone = neon(small(tmp_path, "mnist_cnn.yaml"))
    expected = costs(alone)
    assert len(expected) == 2 and expected[1] < expected[0]
    file = small(tmp_path, "mnist_distarray_cnn.yaml")
    for ranks in (1, 2, 4):
        done = neon(file, "--predictions", tmp_path / f"{ranks}.txt", ranks=ranks)
        assert costs(done) == pytest.approx(expected, rel=1e-4)
        folder = tmp_path / "data" / f"mnist_{ranks}"
        assert sorted(path.name for path in folder.iterdir()) == [f"mnist_{r}.safetensors" for r in range(ranks)]
    again = neon(file, ranks=4)  # from the serialised quads
    assert costs(again) == pytest.approx(expected, rel=1e-4)
    one, four = (tmp_path / "1.txt").read_text(), (tmp_path / "4.txt").read_text()
    assert len(one.splitlines()) == 101  # 1% of 10,000, and a head
    same = sum(a == b for a, b in zip(one.splitlines(), four.splitlines(), strict=True))
    assert same >= 99


def test_cifar10_is_made_where_there_is_none(neon, tmp_path):
    fewer = {"batch_size: &bs 100": "batch_size: &bs 50", "sample_pct: 100": "generate_train: 200, generate_test: 100"}
    for name, ranks in (("cifar10_cnn.yaml", 1), ("cifar10_distarray_cnn.yaml", 4)):
        text = (EXAMPLES / name).read_text()
        for old, new in fewer.items():
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text.replace("num_epochs: 5", "num_epochs: 1"))
        found = costs(neon(path, ranks=ranks))
        expected = found if ranks == 1 else expected  # noqa: F821
        assert found == pytest.approx(expected, rel=1e-4)


def test_the_sparse_auto_encoder_learns_the_same_on_a_grid(neon, tmp_path):
    changes = {"sample_pct: 10": "sample_pct: 0.5", "num_epochs: 2": "num_epochs: 1"}
    found = {}
    for name, ranks in (("mnist_gb.yaml", 1), ("mnist_distarray_gb.yaml", 2)):
        text = (EXAMPLES / name).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        found[ranks] = costs(neon(path, ranks=ranks))
        assert len(found[ranks]) == 5  # three stages, the last layer, all
    assert found[2] == pytest.approx(found[1], rel=1e-3)


def test_files_of_the_later_form(neon, tmp_path):
    done = neon(small(tmp_path, "mnist_mlp.yaml"))
    found = costs(done)
    assert found[1] < found[0]
    assert re.search(r"^train LogLossMean: [\d.]+$", done.stdout, re.M)
    assert re.search(r"^test MisclassPercentage: [\d.]+$", done.stdout, re.M)


def test_a_mistake_gives_file_line_and_what_is_known(neon, tmp_path):
    text = (EXAMPLES / "mnist_cnn.yaml").read_text()
    for old, new, words in [
        (
            "ConvLayer {\n        name: conv2",
            "ConvLayr {\n        name: conv2",
            ['"neon.models.layer.ConvLayr"', 'mean "ConvLayer"'],
        ),
        ("nofm: 50", "nofn: 50", ['no "nofn"', 'mean "nofm"']),
        ("!obj:neon.transforms.softmax.Softmax {}", "!!python/object/apply:os.system [echo]", ["python/object"]),
        ("!obj:neon.transforms.softmax.Softmax {}", "!obj:os.system {command: echo}", ['"os.system"', "known:"]),
        ("num_epochs: 5", "num_epochs: many", ["num_epochs", "number", "many"]),
        ("batch_size: &bs 100", "batch_size: &bs 100, batch_size: 3", ["twice"]),
        ("model: !obj", "modle: !obj", ['no "modle"', 'mean "model"']),
    ]:
        path = tmp_path / "wrong.yaml"
        assert old in text
        path.write_text(text.replace(old, new, 1))
        done = neon(path)
        assert done.returncode == 1
        assert re.search(r"neon: \S*wrong\.yaml:\d+: ", done.stderr), done.stderr
        for word in words:
            assert word in done.stderr, (word, done.stderr)
        assert "Traceback" not in done.stderr
    missing = neon(tmp_path / "none.yaml")
    assert missing.returncode == 1 and "none.yaml" in missing.stderr


def test_one_ranks_missing_file_is_everybodys_error(neon, tmp_path):
    text = small(tmp_path, "mnist_distarray_cnn.yaml").read_text()
    path = tmp_path / "gone.yaml"
    path.write_text(
        text.replace("backend: *be,\n    serialized", "backend: *be, repo_path: './{rank}',\n    serialized", 1)
    )
    done = neon(path, ranks=2, timeout=60)
    assert done.returncode != 0
    assert "train-images-idx3-ubyte" in done.stderr


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_the_recipe(run, pleiad, python_env, ranks):
    """The page's own layer, model and data set."""
    launch = [pleiad, "launch", "-n", ranks] if ranks > 1 else []
    env = {**python_env, "PLEIAD_LOG_LEVEL": "error", "OMP_NUM_THREADS": "1"}
    done = run(*launch, sys.executable, FOLDER / "neon_recipe.py", timeout=120, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the recipe works") == ranks, done.stdout

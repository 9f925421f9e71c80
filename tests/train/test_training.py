"""Training as users start it: plans on processes, `pleiad explain`, and a run that is interrupted and resumed."""

import signal
import subprocess

import pytest
from tensorboard.backend.event_processing import event_accumulator


def losses(text):
    return [float(line) for line in text.split()]


@pytest.mark.parametrize(
    ("ranks", "plan", "exchange", "rule"),
    [(2, "data", "all_reduce", "adam"), (2, "feature", "all_reduce", "momentum"), (4, "hybrid", "tables", "adam")],
)
def test_processes_train_as_one_however_the_net_is_split(build_dir, run, mpirun, ranks, plan, exchange, rule):
    program = build_dir / "bin" / "train_small"
    alone = losses(run(program, "data", "none", rule).stdout)
    assert len(alone) == 20 and alone[-1] < alone[0]
    together = mpirun(ranks, program, plan, exchange, rule)
    assert together.returncode == 0, together.stderr
    assert losses(together.stdout) == pytest.approx(alone, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_event_files_are_read_by_tensorboard(build_dir, mpirun, tmp_path, ranks):
    program = build_dir / "bin" / "train_small"
    ended = mpirun(ranks, program, "data", "auto", "adam", tmp_path / "events")
    assert ended.returncode == 0, ended.stderr
    assert len(list((tmp_path / "events").iterdir())) == 1  # rank 0's
    events = event_accumulator.EventAccumulator(str(tmp_path / "events"), size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    shown = [event.value for event in events.Scalars("train/loss")]
    assert shown == pytest.approx(losses(ended.stdout), rel=1e-6)
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 21))
    assert [event.step for event in events.Histograms("parameters/conv/weight")] == [10, 20]
    assert {"filters/conv/weight", "outputs/x"} <= set(events.Tags()["images"])


def test_explain_lists_the_work_of_each_rank(run, pleiad):
    ended = run(pleiad, "explain", "cnn", "-n", 4, "--batch", 100, "--plan", "hybrid")
    assert ended.returncode == 0, ended.stderr
    lines = {line.split()[0]: line.split() for line in ended.stdout.splitlines()[2:] if line.strip()}
    assert lines["conv2"][:6] == ["conv2", "convolution", "1/4", "of", "the", "samples"]
    assert lines["fc"][:6] == ["fc", "dense", "2-3", "of", "10", "outputs"]
    assert "fc: rank 0: 0-2, rank 1: 3-5, rank 2: 6-7, rank 3: 8-9" in ended.stdout
    assert "787 KB a step" in ended.stdout


def test_explain_names_mistakes(run, pleiad, tmp_path):
    ended = run(pleiad, "explain", "cnnn")
    assert ended.returncode == 1 and 'did you mean "cnn"?' in ended.stderr
    ended = run(pleiad, "explain", "cnn", "--plan", "hybrid", "--split", "fc,conv9")
    assert ended.returncode == 1 and "conv9" in ended.stderr
    ended = run(pleiad, "explain", "cnn", "--rank", 3)
    assert ended.returncode == 2 and 'did you mean "--ranks"?' in ended.stderr
    (tmp_path / "net.json").write_text('{"pleiad_net": 1,')
    ended = run(pleiad, "explain", tmp_path / "net.json")
    assert ended.returncode == 1 and "net.json" in ended.stderr
    ended = run(pleiad, "explain", tmp_path)
    assert ended.returncode == 1 and "manifest.json" in ended.stderr


def test_ctrl_c_saves_and_the_next_run_resumes(build_dir, run, pleiad, tmp_path):
    program = build_dir / "bin" / "fashion_cnn"
    folder = tmp_path / "run"
    process = subprocess.Popen([program, "100000", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("step"), "it trains"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    saved = sorted(path.name for path in folder.glob("step-*"))
    assert process.returncode == 0, errors
    assert len(saved) >= 1
    again = run(program, "1", folder, timeout=120)
    assert again.returncode == 0, again.stderr
    assert "from a checkpoint" in again.stdout
    explained = run(pleiad, "explain", folder / saved[-1], "-n", 2)
    assert explained.returncode == 0 and "fashion_cnn" in explained.stdout

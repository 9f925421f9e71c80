"""SINGA's front door: the blocks of docs/singa.md, the examples of compat/singa, jobs as files, in every world."""

import contextlib
import json
import math
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from run_page import PIECE, sections
from singa_root import COMPAT

pytest_plugins = ["singa_root"]

PAGE = ROOT / "docs" / "singa.md"
HEADINGS = [heading for heading, body in sections(PAGE.read_text()).items() if "```python" in body]


def results(folder, phase="train", metric="loss"):
    reports = json.loads((folder / "results.json").read_text())["reports"]
    return [report[metric] for report in reports if report["phase"] == phase]


def near(a, b, relative=1e-5):
    assert len(a) == len(b) > 0
    assert all(abs(x - y) <= relative * abs(y) for x, y in zip(a, b)), (a, b)


def shortened(path, steps, **fields):
    """Returns a job of this many steps with a report after each. `fields` override those of the file."""
    text = path.read_text()
    values = {"train_steps": steps, "disp_freq": 1, "test_freq": 2, "test_steps": 1, "checkpoint_freq": steps, **fields}
    for name, value in values.items():
        text = re.sub(rf"^{name}: .*$\n", "", text, flags=re.MULTILINE)
        text = f"{name}: {value}\n{text}" if value is not None else text
    path.write_text(text)
    return path


# The page.


@pytest.mark.parametrize("world", ["alone", 2, pytest.param(4, marks=pytest.mark.full)])
def test_the_blocks_of_the_page_run(root, in_world, world, tmp_path):
    program = ROOT / "tests" / "bindings" / "python" / "run_page.py"
    words = [PAGE, *HEADINGS, "--before", "singa_short", "--folder", "."]
    done = in_world(world, root, sys.executable, program, *words, timeout=1200, outputs=tmp_path / "said")
    assert done.returncode == 0, done.stdout + done.stderr
    said = [done.stdout] if world == "alone" else [each.read_text() for each in tmp_path.glob("said/1/rank.*/stdout")]
    assert len(said) == (1 if world == "alone" else world)
    for heading in HEADINGS:
        blocks = sections(PAGE.read_text())[heading].count("```python")
        for text in said:
            assert f"{heading}: {blocks} blocks ran" in text


def test_every_block_of_the_page_is_run():
    text = PAGE.read_text()
    assert text.count("```python") == len([match for match in PIECE.finditer(text) if match.group(1)])
    assert len(HEADINGS) >= 9


# The root, and its scripts.


def short_script(root, name, steps):
    """Returns a script with fewer steps."""
    path = root / "tool" / "python" / "examples" / name
    text = re.sub(r"nb_epoch=\d+(, disp_freq=1)?", f"nb_epoch={steps}, disp_freq=1", path.read_text())
    text = re.sub(r"test_steps=\d+, test_freq=\d+", "test_steps=1, test_freq=2", text)
    path.write_text(text)
    return f"tool/python/examples/{name}"


@pytest.mark.parametrize(("name", "conf"), [("mnist_mlp.py", "mnist/job.conf"), ("cifar10_cnn.py", "cifar10/job.conf")])
def test_a_script_and_its_job_file_give_the_same_losses(root, in_world, name, conf):
    done = in_world("alone", root, "bin/singa-run.sh", "-exec", short_script(root, name, 3))
    assert done.returncode == 0, done.stdout + done.stderr
    workspace = (root / "examples" / conf).parent
    script = results(workspace), results(workspace, "test")
    done = in_world(
        "alone", root, "bin/singa-run.sh", "-conf", shortened(root / "examples" / conf, 3).relative_to(root)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    near(script[0], results(workspace))
    near(script[1], results(workspace, "test"))


def test_a_resumed_script_continues_where_it_stopped(root, in_world):
    """Parameters, momentum and the position in the data are restored: the losses equal those of an uninterrupted run."""
    script = short_script(root, "cifar10_cnn.py", 6)
    path = root / script
    path.write_text(
        path.read_text().replace("SGD(decay", "SGD(momentum=0.9, decay").replace("w_std=0.0001", "w_std=0.01")
    )
    workspace = root / "examples" / "cifar10"

    def seen(*flags):
        done = in_world("alone", root, "bin/singa-run.sh", "-exec", script, *flags)
        assert done.returncode == 0, done.stderr
        return results(workspace), done.stderr

    whole, _ = seen()
    shutil.rmtree(workspace / "checkpoint")
    short_script(root, "cifar10_cnn.py", 4)
    assert seen()[0] == whole[:4]
    short_script(root, "cifar10_cnn.py", 6)
    again, said = seen("-resume")
    assert "resumed at step 4" in said and again[4:] == whole[4:], (said, again, whole)
    near(again, whole)


def test_the_modules_of_the_document_are_there(root, in_world):
    """The things that its page names: a script started by singa-run.sh, and a job started by Driver.Train, as a message
    and as a file.
    """
    (root / "main.py").write_text(
        """
import sys

from examples.datasets import cifar10, mnist
from google.protobuf import text_format
from pb2 import common_pb2, job_pb2
from singa import driver, initialization, initializations, layer, model, parameter
from singa.utils import message, utility

assert initialization.get_init_values is initializations.get_init_values
assert all(hasattr(layer, name) for name in ('Data Dense Activation Convolution2D MaxPooling2D AvgPooling2D LRN2D Dropout RBM '
                                             'Autoencoder').split())
assert all(hasattr(model, name) for name in 'Model Sequential Energy Store Algorithm Updater SGD AdaGrad Cluster'.split())
m = model.Sequential('main', sys.argv)
assert isinstance(m, model.Model) and isinstance(m.jobconf, job_pb2.JobProto) and m.layers == []
job = text_format.Parse(open('examples/mnist/conv.conf').read(), job_pb2.JobProto())
d = driver.Driver()
d.Init(sys.argv)
result = d.Train(job)
assert sorted({row['phase'] for rows in result.values() for row in rows}) == ['test', 'train'] and max(result) == 2, result
assert d.Train() == result and d.Train('examples/mnist/conv.conf') == result  # for -conf, and for a path
blobs = common_pb2.BlobProtos.FromString(open('examples/mnist/conv/checkpoint/step2-worker0', 'rb').read())
assert '0#w1' in list(blobs.name)
job.checkpoint_path.append('examples/mnist/conv/checkpoint/step2-worker0')
assert d.Test(job)[2] == [row for row in result[2] if row['phase'] == 'test']
print('all there')
"""
    )
    shortened(root / "examples" / "mnist" / "conv.conf", 2)
    done = in_world("alone", root, "bin/singa-run.sh", "-exec", "main.py", "-conf", "examples/mnist/conv.conf")
    assert done.returncode == 0 and "all there" in done.stdout, done.stderr


def test_machines_then_the_auto_encoder(root, in_world):
    """A script whose predecessor has not run reports the missing file and the script that creates it."""
    for name, needs in [("mnist_rbm2.py", 1), ("mnist_rbm3.py", 2), ("mnist_rbm4.py", 3), ("mnist_ae.py", 4)]:
        script = short_script(root, name, 2)
        done = in_world("alone", root, "bin/singa-run.sh", "-exec", script)
        assert done.returncode != 0
        assert f"examples/rbm/rbm{needs}/checkpoint/step6000-worker0: no such checkpoint" in done.stderr, done.stderr
        assert f"tool/python/examples/mnist_rbm{needs}.py makes it" in done.stderr
        done = in_world("alone", root, "bin/singa-run.sh", "-exec", short_script(root, f"mnist_rbm{needs}.py", 2))
        assert done.returncode == 0, done.stdout + done.stderr
    done = in_world("alone", root, "bin/singa-run.sh", "-exec", "tool/python/examples/mnist_ae.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(results(root / "examples" / "rbm" / "autoencoder", metric="se")) == 2


def test_a_run_without_evaluate_is_trained_at_the_end(root, in_world):
    program = """
from singa.model import *
x, y, w = mnist.load_data()
m = Sequential('late', [])
m.add(Dense(10, activation='softmax'))
m.compile(optimizer=SGD(), cluster=Cluster(w))
m.fit(x, nb_epoch=2, with_test=True)
"""
    done = in_world("alone", root, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert 'fit(with_test=True) of "late" was not followed by evaluate()' in done.stderr
    assert len(results(root / "examples" / "mnist")) == 2


def test_what_was_learnt_is_kept_and_used(root, in_world):
    program = """
import numpy
from singa.model import *
x, y, w = mnist.load_data(batch_size=100, random_skip=0)
def model():
    m = Sequential('kept', [])
    m.add(Dense(32, activation='relu'))
    m.add(Dropout(0.2))
    m.add(Dense(10, activation='softmax'))
    m.compile(optimizer=SGD(lr=0.1, momentum=0.5), cluster=Cluster(w))
    return m
m = model()
first = m.fit(x, nb_epoch=100, disp_freq=100)
second = m.fit(x, nb_epoch=100, disp_freq=100)
assert second[0][0]['loss'] < first[0][0]['loss'] / 2, (first, second)
tested = m.evaluate(y, test_steps=10)
assert tested[100][0]['acc'] > 0.6, tested
m.save_weights('weights/kept.bin')
other = model()
other.add(x)
other.load_weights('weights/kept.bin')
assert other.evaluate(y, test_steps=10).popitem()[1][0]['loss'] == tested[100][0]['loss']
from pleiad import nn
store = nn.open_store('kvfile', 'examples/mnist/test_data.bin')
images = (store.read('data').reshape(1000, 784) - 127.5) / 127.5
right = (m.predict(images).argmax(axis=1) == store.read('label')).mean()
assert abs(right - tested[100][0]['acc']) < 1e-6
assert numpy.allclose(m.predict(images[:5]).sum(axis=1), 1)
assert m.get_weights()['w1'].shape == (32, 784)
m.save_weights('weights/kept.safetensors')
third = model()
third.add(x)
third.load_weights('weights/kept.safetensors')
assert numpy.array_equal(third.predict(images), m.predict(images))
from safetensors.numpy import load_file
kept = load_file('weights/kept.safetensors')
assert all(numpy.array_equal(kept[name], value) for name, value in m.get_weights().items()) and len(kept) == 4
assert 'ip1' in m.summary() and 'AllReduce, 2 ranks' in m.explain(2)
"""
    done = in_world("alone", root, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_a_layer_and_an_updater_that_a_script_defines(root, in_world):
    program = """
import numpy
from singa.driver import Driver
from singa.model import *

class Scaled:
    def __init__(self, conf):
        assert conf.user_type == 'kScaled'
    def parameters(self, shapes):
        return {'scale': (shapes[0][1],)}
    def forward(self, inputs, parameters):
        return inputs[0] * (1 + parameters[0])
    def backward(self, inputs, parameters, gradient):
        return gradient * (1 + parameters[0]), [(gradient * inputs[0]).sum(axis=0)]

Driver.RegisterLayer('kScaled', Scaled)
Driver.RegisterUpdater('kGentle', 'momentum', rate_in_velocity=True)
x, y, w = mnist.load_data(batch_size=100, random_skip=0)
m = Sequential('own', [])
m.add(Dense(16, activation='relu'))
m.add(UserLayer('kScaled', params=[Parameter(name='s')]))
m.add(Dense(10, activation='softmax'))
updater = SGD(lr=0.1, momentum=0.5)
updater.proto.type, updater.proto.user_type = kUserUpdater, 'kGentle'
m.compile(optimizer=updater, cluster=Cluster(w))
result = m.fit(x, nb_epoch=40, disp_freq=39)
assert result[39][0]['loss'] < result[0][0]['loss'] - 0.3, result
assert numpy.abs(m.get_weights()['s']).max() > 0.001

def halved(value, delta, state, numbers, rates):
    state[0][:] = state[0] / 2 + delta
    value -= rates.learning_rate * state[0]

Driver.RegisterUpdater('kHalved', halved, arrays=1)
updater.proto.user_type = 'kHalved'
updater.proto.momentum = 0
m = Sequential('ruled', [])
m.add(Dense(10, activation='softmax'))
m.compile(optimizer=updater, cluster=Cluster(w))
result = m.fit(x, nb_epoch=40, disp_freq=39)
assert result[39][0]['loss'] < result[0][0]['loss'] - 0.3, result

m = Sequential('own', [])
m.add(UserLayer('kScaled', params=[Parameter(name='s')]))
m.add(Dense(10, activation='softmax'))
m.compile(optimizer=SGD(lr=0.1), cluster=Cluster(w))

class Wrong(Scaled):
    def forward(self, inputs, parameters):
        return inputs[0][:, :1]

Driver.RegisterLayer('kScaled', Wrong)
try:
    m.fit(x, nb_epoch=1)
except Exception as problem:
    assert 'user1' in str(problem) and 'expected an array of shape' in str(problem), problem
else:
    raise AssertionError('no error')
"""
    for world in ("alone", 2):
        done = in_world(world, root, sys.executable, "-c", program)
        assert done.returncode == 0, done.stderr


def test_configure_looks_for_python(root, run, tmp_path):
    (tmp_path / "Python.h").write_text("")
    done = run("./configure", "--enable-python", f"--with-python={tmp_path}", cwd=root)
    assert done.returncode == 0 and (root / "config.mk").exists(), done.stderr
    done = run("make", "-n", cwd=root)
    assert done.returncode == 0 and "cmake --build ../../build/release" in done.stdout, done.stdout + done.stderr
    done = run("./configure", "--enable-python", "--with-python=nowhere", cwd=root)
    assert done.returncode == 1 and "nowhere: there is no Python.h in it" in done.stderr


def test_a_root_that_is_not_built_names_the_remedy(root, run, tmp_path):
    env = {"PLEIAD_BUILD": str(tmp_path / "nowhere"), "PATH": "/usr/bin:/bin"}
    done = run("bin/singa-run.sh", "-conf", "examples/mnist/job.conf", cwd=root, env=env)
    assert done.returncode == 1 and "make in" in done.stderr and "nowhere/bin/pleiad" in done.stderr, done.stderr


def test_only_our_packages_stand_at_the_top_level(build_dir):
    names = {entry.name for entry in (build_dir / "python").iterdir()}
    assert names <= {"pleiad", "multiverso", "singa", "neon"}


# Jobs as files.


def files(pattern):
    found = (COMPAT / "examples").glob(pattern)
    return sorted(str(path.relative_to(COMPAT)) for path in found if path.name != "sample.conf")


@pytest.mark.parametrize("conf", files("**/*.conf"))
def test_a_job_file_explains_itself_and_trains(root, in_world, pleiad, conf):
    path = root / conf
    if "char-rnn" in conf or "rnnlm" in conf:
        done = in_world("alone", root, sys.executable, "tool/python/examples/char_rnn_text.py")
        assert done.returncode == 0, done.stderr
    shortened(path, 2)
    text = re.sub(r"^checkpoint_path: .*$\n", "", path.read_text(), flags=re.MULTILINE)
    # Without earlier training, the machines start from random values.
    text = re.sub(r'param \{ name: "(w\d|b\d\d)" \}', r'param { name: "\1" init { type: kGaussian std: 0.05 } }', text)
    path.write_text(text)
    done = in_world("alone", root, pleiad, "explain", conf)
    assert done.returncode == 0 and re.search(r"^cluster: ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    done = in_world("alone", root, root / "bin" / "singa-run.sh", "-conf", conf)
    assert done.returncode == 0, done.stderr
    workspace = root / re.search(r'workspace: "(.*)"', text).group(1)
    losses = results(workspace)
    assert len(losses) == 2 and all(0 < loss < 1e4 for loss in losses), losses
    assert (workspace / "checkpoint" / "step2-worker0").exists()


def test_a_job_that_is_not_there_or_names_no_file_is_left_to_the_program_that_runs_it(root, in_world):
    done = in_world("alone", root, "bin/singa-run.sh", "-conf", "examples/mnist/jop.conf")
    assert done.returncode != 0 and "examples/mnist/jop.conf: no such file" in done.stderr, done.stderr
    (root / "bare.conf").write_text('name: "bare"')
    done = in_world("alone", root, "bin/singa-run.sh", "-conf", "bare.conf")
    assert done.returncode != 0 and "bare.conf" in done.stderr, done.stderr


def test_a_recurrent_net_writes_what_it_has_read(root, in_world):
    folder = root / "examples" / "char-rnn"
    folder.joinpath("input.txt").write_text("hello world, " * 400)
    letters = "".join(sorted(set("hello world, ")))
    folder.joinpath("vocab.txt").write_text(letters)
    for name, fields in (("job", {}), ("sample", {"test_steps": 39, "checkpoint_freq": None, "test_freq": None})):
        path = folder / f"{name}.conf"
        text = path.read_text().replace("512", "24").replace("101", str(len(letters))).replace("0.002", "0.02")
        path.write_text(text.replace("high: 40", f"high: {len(letters)}").replace("batchsize: 50", "batchsize: 10"))
        shortened(path, 200, **{"disp_freq": 50, "test_freq": 0, **fields})
    done = in_world("alone", root, "bin/singa-run.sh", "-conf", "examples/char-rnn/job.conf")
    assert done.returncode == 0, done.stderr
    near(results(folder, metric="ppl"), [math.exp(loss) for loss in results(folder)])
    shortened(
        folder / "sample.conf", 0, checkpoint_path='"examples/char-rnn/checkpoint/step200-worker0"', test_steps=39
    )
    done = in_world("alone", root, "bin/singa-run.sh", "-conf", "examples/char-rnn/sample.conf", "-test")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == 39 and "hello world, hello" in done.stdout, done.stdout


def test_jobs_are_explained(root, run, pleiad):
    done = run(pleiad, "explain", "examples/cifar10/hybrid.conf", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "AllReduce, 2 ranks" in done.stdout and "5 of 10 outputs" in done.stdout, done.stdout
    assert re.search(r"^  [\d.]+ KB a step are exchanged with each rank, ", done.stdout, re.MULTILINE), done.stdout
    done = run(pleiad, "explain", "examples/mnist/hogwild.conf", cwd=root)
    assert "204 KB a step are exchanged with each group: every 4 steps 407 KB of changes" in done.stdout, done.stdout
    done = run(pleiad, "explain", "examples/mnist/job.conf", "-n", "4", cwd=root)
    assert "a worker takes 16 of the 64 samples" in done.stdout, done.stdout
    assert "note: the job asks for 1 worker; the 4 ranks that were started are its workers" in done.stdout


@pytest.mark.parametrize("conf", ["mnist/allreduce.conf", "mnist/sandblaster.conf", "mnist/conv.conf"])
def test_ranks_do_not_change_the_losses(root, in_world, pleiad, conf):
    path = shortened(root / "examples" / conf, 6)
    workspace = root / re.search(r'workspace: "(.*)"', path.read_text()).group(1)
    seen = []
    for world in ("alone", 2, 4):
        done = in_world(world, root, pleiad, "run", path)
        assert done.returncode == 0, done.stderr
        seen.append((results(workspace), results(workspace, "test")))
    for each in seen[1:]:
        near(each[0], seen[0][0])
        near(each[1], seen[0][1])


@pytest.mark.parametrize(
    ("mode", "point", "ranks"),
    [
        ("allreduce", "1:all_reduce:60", 2),
        ("sandblaster", "1:add:40", 2),
        ("sandblaster", "3:all_reduce:60", 4),  # two workers, two servers
        ("downpour", "1:add:40", 2),
        ("hogwild", "1:add:40", 2),
    ],
)
def test_a_killed_worker_is_reported_and_the_job_resumes(root, in_world, pleiad, mode, point, ranks, tmp_path):
    path = shortened(root / "examples" / "mnist" / f"{mode}.conf", 60, checkpoint_freq=2, test_freq=0)
    outputs = tmp_path / "said"
    in_world(ranks, root, pleiad, "run", path, env={"PLEIAD_FAULT": point}, recovery=True, outputs=outputs)
    for rank in sorted({*range(ranks)} - {int(point[0])}):
        said = (outputs / "1" / f"rank.{rank}" / "stderr").read_text()
        assert re.search(rf"pleiad run: .*rank {point[0]} .*died", said), said
    assert not (root / "examples" / "mnist" / mode / "checkpoint" / "step60-worker0").exists()
    saved = path.parent.joinpath(mode, "checkpoint", "state").glob("step-*/manifest.json")
    last = max(int(file.parent.name.removeprefix("step-")) for file in saved)
    assert last >= 2
    done = in_world(2, root, pleiad, "run", path, "-resume")
    assert done.returncode == 0, done.stderr
    step = int(re.search(r"resumed at step (\d+)", done.stderr).group(1))
    assert step == last, done.stderr
    assert (root / "examples" / "mnist" / mode / "checkpoint" / "step60-worker0").exists()


def test_a_terminal_shows_where_a_run_is(root, pleiad):
    """On a terminal the last line is redrawn, and the reports stay above it."""
    job = shortened(root / "examples" / "mnist" / "conv.conf", 4)
    ours, theirs = pty.openpty()
    command = [str(pleiad), "run", str(job)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # the other end of the terminal is closed
            while piece := os.read(ours, 4096):
                seen += piece
    os.close(ours)
    assert process.returncode == 0, seen
    assert re.search(
        rb"\r\x1b\[Kmnist-conv: step 1 of 4, loss [\d.]+, acc [\d.]+, [\d,]+ samples/s, \d+ s left", seen
    ), seen
    assert re.search(rb"\r\x1b\[KTest step 2: loss", seen) or b"Test step 2: loss" in seen, seen


def test_a_checkpoint_travels_as_safetensors(root, run, pleiad):
    job = shortened(root / "examples" / "mnist" / "conv.conf", 2)
    assert run(pleiad, "run", job, cwd=root).returncode == 0
    checkpoint = root / "examples" / "mnist" / "conv" / "checkpoint" / "step2-worker0"
    for layout in ("singa", "torch"):
        done = run(pleiad, "export", checkpoint, f"{layout}.safetensors", "--job", job, "--layout", layout, cwd=root)
        assert done.returncode == 0, done.stderr
        words = ["import", f"{layout}.safetensors", f"{layout}-worker0", "--job", job, "--step", "2"]
        done = run(pleiad, *words, cwd=root)
        assert done.returncode == 0, done.stderr
        assert (root / f"{layout}-worker0").read_bytes() == checkpoint.read_bytes()
    done = run(pleiad, "import", "singa.safetensors", "x", "--job", job, "--net", "mlp", cwd=root)
    assert done.returncode != 0 and "either --net or --job" in done.stderr, done.stderr


def test_servers_that_are_ranks_are_named(root, in_world, pleiad, run):
    job = shortened(root / "examples" / "mnist" / "sandblaster.conf", 4)
    done = run(pleiad, "explain", job, "-n", "4", cwd=root)
    assert "Sandblaster, 2 ranks, and 2 that only serve" in done.stdout, done.stdout
    assert "do not run as separate processes" not in in_world(4, root, pleiad, "run", job).stderr
    assert "do not run as separate processes" in in_world(2, root, pleiad, "run", job).stderr


def test_the_options_of_a_run(root, run, pleiad):
    done = run(pleiad, "run", "nowhere.conf", cwd=root)
    assert done.returncode == 1 and "nowhere.conf" in done.stderr
    done = run(pleiad, "run", "examples/mnist/job.conf", "--resum", cwd=root)
    assert done.returncode == 2 and 'did you mean "--resume"?' in done.stderr, done.stderr
    shortened(root / "examples" / "mnist" / "conv.conf", 2)
    words = ["-singa_conf", "x", "-singa_job", "1", "-conf", "examples/mnist/conv.conf"]
    assert run(pleiad, "run", *words, cwd=root).returncode == 0
    checkpoint = "examples/mnist/conv/checkpoint/step2-worker0"
    shortened(root / "examples" / "mnist" / "conv.conf", 2, checkpoint_path=f'"{checkpoint}"', test_steps=10)
    done = run(pleiad, "run", "examples/mnist/conv.conf", "-test", cwd=root)
    assert done.returncode == 0 and re.search(r"Test step 2: loss [\d.]+, acc", done.stderr), done.stderr
    workspace = root / "examples" / "mnist" / "conv"  # it still has the training's values
    assert len(results(workspace)) == 2 and len(results(workspace, "test")) == 3

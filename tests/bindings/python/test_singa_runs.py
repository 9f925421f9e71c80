"""SINGA jobs while they run and when they end: signals, workspaces, uneven batches, results that are not finite."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import sys
import time

import pytest
from conftest import PATIENCE, kill_session
from jobs import Job, mpirun_words
from singa_root import COMPAT

pytest_plugins = ["singa_root"]

SCRIPT = """
import sys
from singa.model import *

X_train, X_test, workspace = mnist.load_data()
m = Sequential('runs', sys.argv)
m.add(Dense(10, init='uniform', activation='softmax'))
m.compile(loss='categorical_crossentropy', optimizer=SGD(lr=0.001), cluster=Cluster('runs'))
"""
LONG = SCRIPT + "m.fit(X_train, nb_epoch=1000000, disp_freq=20)\n"


def job_text(root, steps, name="runs", more=""):
    return f"""name: "{name}" train_steps: {steps} disp_freq: 20 {more}
train_one_batch {{ alg: kBP }}
updater {{ type: kSGD momentum: 0.9 learning_rate {{ type: kFixed base_lr: 0.001 }} }}
neuralnet {{
  layer {{ name: "data" type: kRecordInput include: kTrain
    store_conf {{ path: "{root}/examples/mnist/train_data.bin" batchsize: 64 shape: 784 std_value: 255 }} }}
  layer {{ name: "data" type: kRecordInput include: kTest
    store_conf {{ path: "{root}/examples/mnist/test_data.bin" batchsize: 100 shape: 784 std_value: 255 }} }}
  layer {{ name: "ip" type: kInnerProduct srclayers: "data" innerproduct_conf {{ num_output: 10 }}
    param {{ name: "w" init {{ type: kGaussian std: 0.05 }} }} param {{ name: "b" init {{ type: kConstant value: 0 }} }} }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "data" }}
}}
cluster {{ workspace: "{root}/runs" }}
"""


def write_job(root, steps, **fields):
    path = root / "runs.conf"
    path.write_text(job_text(root, steps, **fields))
    return path


@pytest.fixture
def env(python_env, build_dir):
    return {
        **python_env,
        "PLEIAD_BUILD": str(build_dir),
        "PYTHON": sys.executable,
        "PLEIAD_LOG_LEVEL": "warn",
        # Seconds until mpirun passes a signal on, and then until SIGKILL. The usual 1 s is too short on a busy machine.
        "OMPI_MCA_odls_base_sigkill_timeout": "15",
    }


def started_job(command, env):
    """Starts a job and waits until it has made some steps."""
    job = Job(command, env)
    job.read_until(lambda j: any("Train step 20:" in line for line in j.err) or j.process.poll() is not None, 60)
    assert job.process.poll() is None, job.text()
    return job


WORLDS = {
    "alone": lambda pleiad, root: [],
    "mpirun": lambda pleiad, root: [*mpirun_words(2), "-wdir", root],
    "launch": lambda pleiad, root: [pleiad, "launch", "-n", "2"],
}


@pytest.mark.parametrize("world", ["alone", pytest.param("mpirun", marks=pytest.mark.full), "launch"])
@pytest.mark.parametrize(("kind", "number"), [("conf", signal.SIGTERM), ("script", signal.SIGINT)])
def test_a_signal_saves_and_ends_without_a_traceback(root, env, pleiad, run, world, kind, number):
    script = root / "long.py"
    script.write_text(f"import os\nos.chdir({str(root)!r})\n" + LONG)
    conf = write_job(root, 1000000)
    command = [sys.executable, script] if kind == "script" else [pleiad, "run", conf]
    job = started_job([*WORLDS[world](pleiad, root), *command], env)
    try:
        os.kill(job.process.pid, number)
        job.finish(60)
    finally:
        job.close()
    text = job.text()
    assert "Traceback" not in text, text
    # mpirun reads no output while it ends a job, so the last lines may be only in job.log.
    log = (root / "runs" / "job.log").read_text()
    stopped = re.search(r"stopped at step (\d+); saved (\S+); -resume continues", log)
    assert stopped, f"{text}\n--- job.log\n{log[-2000:]}"
    assert world == "mpirun" or stopped.group() in text, text
    step = int(stopped.group(1))
    assert (root / stopped.group(2)).exists()
    record = json.loads((root / "runs" / "run.json").read_text())
    assert record["status"] == "stopped" and record["step"] == step, record
    # and continues from there
    if kind == "conf" and world != "launch":
        write_job(root, step + 1)
        done = run(pleiad, "run", conf, "-resume", env=env)
        assert done.returncode == 0 and f"resumed at step {step}" in done.stderr, done.stderr


def test_threads_save_when_they_are_stopped(root, env, pleiad):
    conf = root / "runs.conf"
    conf.write_text(job_text(root, 1000000).replace('/runs" }', '/runs" nworkers_per_group: 2 }'))
    job = started_job([pleiad, "run", conf], env)
    try:
        os.kill(job.process.pid, signal.SIGINT)
        assert job.finish(60) == 130
    finally:
        job.close()
    assert re.search(r"stopped at step \d+; saved ", job.text()), job.text()
    assert list((root / "runs" / "checkpoint").glob("step*-worker0"))


def test_a_second_run_is_refused_while_the_first_is_alive(root, env, pleiad, run):
    conf = write_job(root, 1000000)
    job = started_job([pleiad, "run", conf], env)
    try:
        done = run(pleiad, "run", conf, env=env)
        assert done.returncode == 1 and "is using it" in done.stderr, done.stderr
        assert f"process {job.process.pid} on" in done.stderr
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait(timeout=60)
    finally:
        job.close()
    write_job(root, 3)
    done = run(pleiad, "run", conf, env=env)
    assert done.returncode == 0, done.stderr
    assert 'the last run of this workspace, "runs"' in done.stderr and "was killed or crashed" in done.stderr


@pytest.mark.parametrize("ranks", [3, 8])
def test_the_documents_scripts_run_on_ranks_that_do_not_divide_the_batch(root, in_world, ranks, tmp_path):
    script = root / "uneven.py"
    script.write_text(
        SCRIPT
        + "m.fit(X_train, nb_epoch=6, with_test=True, disp_freq=1)\n"
        + "result = m.evaluate(X_test, batch_size=100, test_steps=3, test_freq=3)\n"
        + "print('result', [(s, r['phase'], r['loss'], r['acc']) for s, rows in sorted(result.items()) for r in rows])\n"
    )
    said = []
    for world in ("alone", ranks):
        done = in_world(world, root, sys.executable, script, outputs=None if world == "alone" else tmp_path / "said")
        assert done.returncode == 0, done.stderr
        out = done.stdout if world == "alone" else (tmp_path / "said/1/rank.0/stdout").read_text()
        said.append(eval(re.search(r"result (.*)", out).group(1)))
    one, many = said
    assert [row[:2] for row in one] == [row[:2] for row in many] and len(one) > 6
    for a, b in zip(one, many, strict=True):
        assert abs(a[2] - b[2]) <= 1e-5 * abs(a[2]) and abs(a[3] - b[3]) < 1e-6, (a, b)


def test_ranks_with_different_job_files_all_name_the_difference(root, env, mpirun, pleiad, tmp_path):
    for rank, steps in ((0, 20), (1, 25)):
        (root / f"job{rank}.conf").write_text(job_text(root, steps))
    words = ["bash", "-c", f"{pleiad} run {root}/job$OMPI_COMM_WORLD_RANK.conf; echo ended with $?"]
    mpirun(2, *words, env=env, recovery=True, outputs=tmp_path / "said")
    for rank in (0, 1):
        said = tmp_path / "said" / "1" / f"rank.{rank}"
        text = (said / "stderr").read_text()
        assert "different jobs: train_steps is 20 on rank 0 and 25 on rank 1" in text, text
        assert (said / "stdout").read_text().endswith("ended with 1\n")


def test_a_test_without_a_whole_checkpoint_is_an_error(root, run, env, pleiad):
    conf = write_job(root, 3)
    done = run(pleiad, "run", conf, "--test", env=env)
    assert done.returncode == 1 and "checkpoint_path" in done.stderr and "Test step" not in done.stderr, done.stderr
    done = run(pleiad, "run", conf, "-resume", "-test", env=env)
    assert (
        done.returncode == 1 and "has no checkpoint of a run to test" in done.stderr and "Test step" not in done.stderr
    ), done.stderr
    (root / "empty").write_bytes(b"")
    program = SCRIPT + (
        "for path in ('gone', 'empty'):\n"
        "    try:\n"
        "        m.evaluate(X_test, batch_size=100, checkpoint_path=path)\n"
        "        print('a result')\n"
        "    except Exception as problem:\n"
        "        print(path, '|', problem)\n"
    )
    done = run(sys.executable, "-c", program, cwd=root, env=env)
    assert done.returncode == 0 and "a result" not in done.stdout, done.stdout + done.stderr
    assert re.search(r"gone \| gone: no such checkpoint", done.stdout), done.stdout
    assert re.search(r"empty \| empty: has none of the net's parameters, which are w1, b1", done.stdout), done.stdout
    # Waits for a run's own last checkpoint.
    assert run(pleiad, "run", conf, env=env).returncode == 0
    done = run(pleiad, "run", conf, "-resume", "-test", env=env)
    assert done.returncode == 0 and "Test step" in done.stderr, done.stderr


def test_missing_steps_are_an_error(root, run, env, pleiad):
    conf = write_job(root, 3)
    conf.write_text(conf.read_text().replace("train_steps: 3", ""))
    done = run(pleiad, "run", conf, env=env)
    assert done.returncode == 1 and "train_steps" in done.stderr and "received none" in done.stderr, done.stderr


def read_terminal(command, env, cwd, seconds=60):
    """Returns the output of a command to its controlling terminal."""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(str(command[0]), [str(word) for word in command], {**os.environ, **env})
    seen = b""
    deadline = time.monotonic() + seconds * PATIENCE
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline and (piece := os.read(ours, 4096)):
            seen += piece
    os.close(ours)
    _, status = os.waitpid(pid, 0)
    kill_session(pid)
    return status, seen


@pytest.mark.parametrize("world", ["alone", "mpirun", "launch"])
def test_the_live_line_shows_step_metrics_rate_and_time_left(root, env, pleiad, world):
    conf = write_job(root, 300)
    status, seen = read_terminal([*WORLDS[world](pleiad, root), pleiad, "run", conf], env, root)
    assert status == 0, seen
    line = rb"\r\x1b\[Kruns: step \d+ of 300, loss [\d.e+-]+, acc [\d.]+, [\d,]+ samples/s, [\d:]+ (s|min|h) left"
    assert re.search(line, seen), seen


# Scripts as in the original.


def test_the_driver_takes_what_the_originals_scripts_give_it(root, run, env):
    program = """
import sys
from singa.driver import Driver
from singa.model import *

X_train, X_test, workspace = mnist.load_data()
m = Sequential('driver', sys.argv)
m.add(Dense(10, init='uniform', activation='softmax'))
m.compile(loss='categorical_crossentropy', optimizer=SGD(lr=0.001), cluster=Cluster('driver'))
m.fit(X_train, nb_epoch=2)
job = m._last_job
d = Driver()
d.InitLog(sys.argv[0])
d.Init(sys.argv)
results = [d.Train(False, job.SerializeToString()), d.Train(False, job), d.Train(job), d.Train(job, resume=False)]
assert all(r == results[0] for r in results) and results[0], results
try:
    d.Train(False, b'no job')
except ValueError as problem:
    assert 'not a serialized JobProto' in str(problem), problem
else:
    raise AssertionError('no error')
try:
    d.Train(False, 12.5)
except TypeError as problem:
    assert 'expected a JobProto' in str(problem), problem
else:
    raise AssertionError('no error')
"""
    done = run(sys.executable, "-c", program, cwd=root, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_parameters_of_single_layers_are_saved_and_loaded(root, run, env):
    program = """
import sys
import numpy
from singa.driver import Driver
from singa.model import *

def net():
    return [ImageInput(4, 4, 1), Convolution2D(3, 3, 1, 1, w_std=0.1), Activation('relu'), Dense(2, w_std=0.1)]

def run(layers, data):
    layers[0].Feed(data)
    for a, b in zip(layers, layers[1:]):
        b.ComputeFeature(a, phase='test')
    return numpy.array(layers[-1].GetData())

data = numpy.random.default_rng(3).normal(size=(5, 16)).astype('float32')
first = net()
expected = run(first, data)
save_model_parameter(7, 'saved', first)
second = net()
load_model_parameter('saved/step7-worker0', second)
assert numpy.allclose(run(second, data), expected)
third = net()
run(third, data)
third[1].SetParams(*(0 * p for p in third[1].GetParams()))
assert not numpy.allclose(run(third, data), expected)
load_model_parameter('saved/step7-worker0', third, batchsize=5, data_shape=[5, 1, 4, 4])
assert numpy.allclose(run(third, data), expected)
for path, words in (('gone', 'no such checkpoint'), ('other', 'has no w1')):
    open('other', 'wb').close()
    try:
        load_model_parameter(path, net())
    except (FileNotFoundError, ValueError) as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError('no error')
"""
    done = run(sys.executable, "-c", program, cwd=root, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_documents_short_forms_run_as_written(root, run, env):
    program = """
import sys
from singa.model import *

X_train, X_test = mnist.load_data()
X_train, X_test, workspace = mnist.load_data()
assert workspace == 'examples/mnist' and len(mnist.load_data()) == 3
assert tuple(cifar10.load_data())[2] == 'examples/cifar10'
try:
    a, b, c, d = mnist.load_data()
except ValueError as problem:
    assert 'X_train, X_test and the workspace' in str(problem), problem
else:
    raise AssertionError('no error')
images, tests = cifar10.load_data()
m = Sequential('forms', sys.argv)
m.add(Convolution(4, 5, 1, 2))
m.add(MaxPooling2D(pool_size(3,3), stride=2))
m.add(AvgPooling2D(pool_size(3,3), stride=2))
m.add(Dense(10, activation='softmax'))
m.compile(optimizer=SGD(lr=0.001), cluster=Cluster('forms'))
assert m.fit(images, nb_epoch=1)
assert m.jobconf.neuralnet.layer[2].pooling_conf.kernel == 3
"""
    done = run(sys.executable, "-c", program, cwd=root, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_inspect_reads_singas_checkpoints(root, run, env, pleiad):
    conf = write_job(root, 3)
    assert run(pleiad, "run", conf, env=env).returncode == 0
    done = run(pleiad, "inspect", root / "runs" / "checkpoint" / "step3-worker0", "--numbers")
    assert done.returncode == 0, done.stderr
    assert "checkpoint of SINGA, 2 parameters, step 3" in done.stdout, done.stdout
    assert re.search(r"0#w +F32 +10 x 784 .* to .*, mean ", done.stdout), done.stdout
    (root / "text").write_text("no checkpoint")
    done = run(pleiad, "inspect", root / "text")
    assert done.returncode == 1, done.stdout


def test_exec_starts_a_binary_as_well_as_a_script(root, run, env, tmp_path):
    source = tmp_path / "main.c"
    source.write_text(
        '#include <stdio.h>\nint main(int n, char** v) { while (*++v) printf("[%s]", *v); return n == 99; }'
    )
    assert run("cc", source, "-o", root / "my_main").returncode == 0
    done = run("bin/singa-run.sh", "-exec", "my_main", "-conf", "job.conf", "-resume", "more", cwd=root, env=env)
    assert done.returncode == 0 and done.stdout == "[-conf][job.conf][-resume][more]", done.stdout + done.stderr
    script = root / "mine.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    done = run("bin/singa-run.sh", "-exec", "mine.py", "-resume", cwd=root, env=env)
    assert done.returncode == 0 and done.stdout == "['-resume']\n", done.stdout + done.stderr
    done = run("bin/singa-run.sh", "-exec", "nowhere", cwd=root, env=env)
    assert done.returncode == 1 and "nowhere: no such file" in done.stderr, done.stderr


def test_configure_has_its_effect_where_a_build_exists(run, tmp_path):
    """make configures again if ./configure had other options than the build."""
    root = tmp_path / "top" / "compat" / "singa"
    root.mkdir(parents=True)
    for name in ("configure", "Makefile"):
        shutil.copy(COMPAT / name, root)
    build = tmp_path / "top" / "build" / "release"
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text('#!/bin/sh\necho "$@" >>"$CALLS"\n')
    (tools / "cmake").chmod(0o755)
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "Python.h").write_text("")
    calls = tmp_path / "calls"

    def made(*words):
        calls.write_text("")
        assert run("./configure", "--enable-python", *words, cwd=root).returncode == 0
        done = run("make", cwd=root, env={"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls)})
        assert done.returncode == 0, done.stderr
        return calls.read_text()

    assert f"-DPython_INCLUDE_DIR={headers}" in made(f"--with-python={headers}")
    assert "-DPython_INCLUDE_DIR" not in made(f"--with-python={headers}")  # it is already configured so
    assert "--preset release" in made() and "-DPython_INCLUDE_DIR" not in calls.read_text()


def test_a_loss_that_is_not_finite_ends_a_script(root, run, env):
    program = SCRIPT.replace("lr=0.001", "lr=1e38") + (
        "import sys\n"
        "try:\n"
        "    m.fit(X_train, nb_epoch=9)\n"
        "except Exception as problem:\n"
        "    print('stopped:', problem)\n"
        "m.fit(X_train, nb_epoch=9, check_finite=False)\n"
        "print('trained on')\n"
    )
    done = run(sys.executable, "-c", program, cwd=root, env=env)
    assert done.returncode == 0, done.stderr
    assert re.search(r"stopped: step \d: the loss is .*first layer, in forward order.* \"ip1\"", done.stdout), (
        done.stdout
    )
    assert "trained on" in done.stdout and "training continues" in done.stderr


def test_a_program_is_not_left_running(root, env, pleiad):
    """A second SIGTERM ends a run at once."""
    job = started_job([pleiad, "run", write_job(root, 1000000)], env)
    try:
        with contextlib.suppress(ProcessLookupError):
            for _ in range(2):
                os.kill(job.process.pid, signal.SIGTERM)
        assert job.finish(60) in (130, -signal.SIGTERM)
    finally:
        job.close()

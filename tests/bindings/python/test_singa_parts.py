"""Separate parts of SINGA's front door: data sets, parameters, updaters, and error messages."""

import re
import shutil
import sys

import pytest
from singa_root import COMPAT

pytest_plugins = ["singa_root"]


def test_stores_are_built_from_local_files_on_first_use(in_world, tmp_path):
    program = """
import numpy, sys
from pleiad import nn
from singa.engine import session
from singa.model import *

draw = numpy.random.default_rng(1)
if session().rank == 0:
    for part in ('train', 't10k'):
        images = draw.integers(0, 255, (300, 1, 28, 28), dtype='uint8')
        labels = numpy.arange(300) % 10
        nn.write_store('idx', f'{part}-images-idx3-ubyte', f'{part}-labels-idx1-ubyte', data=images, labels=labels)
session().barrier()
train, test, workspace = mnist.load_data(folder='.')
conf = train.layer.store_conf
assert workspace == 'examples/mnist' and list(conf.batchsize) == [64] and list(conf.shape) == [784]
assert conf.random_skip == 5000 and conf.mean_value == conf.std_value == 127.5
assert len(nn.open_store('kvfile', conf.path)) == 300
machine = mnist.load_data(nb_rbm=1)[0].layer.store_conf
assert list(machine.batchsize) == [100] and machine.std_value == 255 and not machine.HasField('mean_value')
"""
    for world in (2, "alone"):
        done = in_world(world, tmp_path, sys.executable, "-c", program)
        assert done.returncode == 0, done.stderr
        assert "mnist: records of mnist: " in done.stdout, done.stdout


def test_stores_are_rebuilt_if_other_files_are_named_or_appear(in_world, tmp_path):
    """MNIST replaces its substitute once it is present. A named folder supplies the records or is an error. A store
    that was not built by the package is not changed.
    """
    program = """
import sys
from pathlib import Path

import numpy
from pleiad import nn
from singa.datasets import cifar10, mnist

def write(folder, count):
    Path(folder).mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(1)
    for part in ('train', 't10k'):
        images = draw.integers(0, 255, (count, 1, 28, 28), dtype='uint8')
        name = f'{folder}/{part}'
        nn.write_store('idx', f'{name}-images-idx3-ubyte', f'{name}-labels-idx1-ubyte', data=images, labels=numpy.arange(count) % 10)

def records(**fields):
    return len(nn.open_store('kvfile', mnist.load_data(**fields)[0].layer.store_conf.path))

assert records() == 60000  # Fashion-MNIST
write('examples/mnist', 30)
assert records() == 30
write('other', 20)
assert records(folder='other') == 20
changed = Path('examples/mnist/train_data.bin').stat().st_mtime_ns
assert records() == 20 and records(folder='other') == 20
assert Path('examples/mnist/train_data.bin').stat().st_mtime_ns == changed
for loader, words in ((mnist, 'nowhere: contains no MNIST'), (cifar10, 'nowhere: contains no CIFAR-10')):
    try:
        loader.load_data(folder='nowhere')
    except FileNotFoundError as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError('no error')
Path('examples/mnist/source.txt').unlink()  # not known to be built by the package
assert records() == 20
write('third', 10)
assert records(folder='third') == 20
"""
    done = in_world("alone", tmp_path, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "mnist: records of fashion-mnist: " in done.stdout
    assert "mnist: building examples/mnist/train_data.bin and examples/mnist/test_data.bin again" in done.stdout
    assert "mnist: records of mnist: other/train-images-idx3-ubyte" in done.stdout, done.stdout


def test_a_job_with_missing_files_names_the_script_that_creates_them(in_world, tmp_path):
    shutil.copytree(
        COMPAT, tmp_path / "new", ignore=shutil.ignore_patterns("*.bin", "*.txt", "checkpoint", "generated")
    )
    for conf, script in (
        ("mnist/job", "datasets/mnist"),
        ("cifar10/job", "datasets/cifar10"),
        ("char-rnn/job", "char_rnn_text"),
        ("rbm2", "mnist_rbm1"),
        ("autoencoder", "mnist_rbm4"),
    ):
        done = in_world("alone", tmp_path / "new", "bin/singa-run.sh", "-conf", f"examples/{conf}.conf")
        assert done.returncode == 1 and re.search("no such (file|checkpoint)", done.stderr), done.stderr
        assert f"bin/singa-run.sh -exec tool/python/examples/{script}.py makes them" in done.stderr, done.stderr
        assert (tmp_path / "new" / "tool" / "python" / "examples" / f"{script}.py").exists()


def test_data_is_made_for_jobs(in_world, tmp_path):
    shutil.copytree(COMPAT, tmp_path / "new", ignore=shutil.ignore_patterns("*.bin", "checkpoint", "generated"))
    for name, said in (("mnist", "mnist: records of "), ("cifar10", "cifar10: records of ")):
        script = f"tool/python/examples/datasets/{name}.py"
        done = in_world("alone", tmp_path / "new", "bin/singa-run.sh", "-exec", script)
        assert done.returncode == 0 and said in done.stdout, done.stderr
        assert (tmp_path / "new" / "examples" / name / "train_data.bin").exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("Dense(10, activaton='relu')", 'Dense: unknown argument "activaton"; did you mean "activation"?'),
        ("MaxPooling2D(pool_size=3, strid=2)", 'MaxPooling2D: unknown argument "strid"; did you mean "stride"?'),
        ("LRN2D(3, alfa=1)", 'LRN2D: unknown argument "alfa"; did you mean "alpha"?'),
        ("RBM([3], samplin='gaussian')", 'RBM: unknown argument "samplin"; did you mean "sampling"?'),
        ("Autoencoder([3], outdim=4)", 'Autoencoder: unknown argument "outdim"; did you mean "out_dim"?'),
        ("Dense('ten')", "Dense: output_dim: expected a whole number; received 'ten'"),
        ("Convolution2D(0)", "Convolution2D: nb_filter: expected 1 or more; received 0"),
        ("RBM([30, -1])", "RBM: out_dim: expected 1 or more; received -1"),
        ("RMSProp(roh=0.9)", 'RMSProp: unknown argument "roh"; did you mean "rho"?'),
        ("Data(load='recordinputs')", 'LayerType: unknown argument "recordinputs"; did you mean "recordinput"?'),
        ("Updater('sgdd')", 'UpdaterType: unknown argument "sgdd"; did you mean "sgd"?'),
        ("compiled().fit(None, nb_epochs=3)", 'fit: unknown argument "nb_epochs"; did you mean "nb_epoch"?'),
        ("compiled().fit(None, nb_epoch=3, with_tests=1)", 'unknown argument "with_tests"; did you mean "with_test"?'),
        (
            "compiled().fit(None, validation_data=1)",
            'unknown argument "validation_data"; did you mean "validate_data"?',
        ),
        ("compiled().fit(None, devices=[0])", 'fit: unknown argument "devices"; did you mean "device"?'),
        ("compiled().fit(None, disp_frq=1)", 'fit: unknown argument "disp_frq"; did you mean "disp_freq"?'),
        ("compiled().fit(None, nb_epoch='a')", "fit: nb_epoch, the steps: expected a whole number; received 'a'"),
        ("compiled().evaluate(None, batchsize=3)", 'unknown argument "batchsize"; did you mean "batch_size"?'),
        ("compiled().compile(optimiser=SGD())", 'unknown argument "optimiser"; did you mean "optimizer"?'),
        ("Dense(10, w_sdt=1)", 'w_...: unknown argument "sdt"; did you mean "std"?'),
        ("Parameter(intit='uniform')", 'Parameter: unknown argument "intit"; did you mean "init"?'),
        ("Parameter(init='unifrom')", 'unknown init "unifrom"'),
        ("Store(pth='x')", 'StoreProto: unknown argument "pth"; did you mean "path"?'),
        ("SGD(lr_typ='step')", 'SGD: unknown argument "lr_typ"; did you mean "lr_type"?'),
        ("SGD(lr_type='steps')", 'did you mean "step"?'),
        ("Cluster('w', nworker_group=2)", 'did you mean "nworker_groups"?'),
        ("Activation('rleu')", 'did you mean "relu"?'),
        ("MaxPooling2D(pool_size=(2, 3, 4))", "MaxPooling2D: pool_size: expected a number, or a pair of them"),
        ("Sequential('a').compile(loss='mse', optimizer=SGD(), cluster=Cluster('w'))", 'unknown argument "mse"'),
        ("Sequential('a').fit(None, nb_epoch=1)", "fit: call compile first"),
        (
            "Dropout(0.5); RBM(5); Convolution2D(3, (3, 5)); AdaGrad(); raise ValueError('all are there')",
            "all are there",
        ),
    ],
)
def test_errors_name_the_mistake(run, python_env, code, words):
    head = "from singa.model import *\n"
    if "compiled" in code:
        head += "def compiled():\n m = Sequential('a')\n m.compile(optimizer=SGD(), cluster=Cluster('w'))\n return m\n"
    done = run(sys.executable, "-c", head + code, env=python_env)
    assert done.returncode != 0
    assert words in done.stderr, done.stderr


def test_a_parameter_is_a_template(root, in_world):
    program = """
import numpy
from singa.model import *
x, y, w = mnist.load_data(batch_size=100)
p = Parameter(init='gaussian', std=0.05)
m = Sequential('template', [])
m.add(Dense(40, w_param=p, b_param=p, activation='relu'))
p.update(std=2)
m.add(Dense(40, w_param=p, b_param=p, activation='relu'))
own = p.copy(std=7)
m.add(Dense(10, w_param=p, b_param=p, activation='softmax'))
m.compile(optimizer=SGD(lr=1e-9), cluster=Cluster(w))
m.fit(x, nb_epoch=1)
weights = m.get_weights()
assert 0.045 < weights['w1'].std() < 0.055, weights['w1'].std()
assert 1.8 < weights['w2'].std() < 2.2, weights['w2'].std()
assert 1.7 < weights['w3'].std() < 2.3, weights['w3'].std()
assert not numpy.array_equal(weights['w2'][:10], weights['w3'])
assert p.fields['std'] == 2 and own.fields['std'] == 7
rate = SGD(lr=0.5, lr_type='step').proto.learning_rate
assert rate.base_lr == 0.5 and rate.step_conf.change_freq == 60 and abs(rate.step_conf.gamma - 0.997) < 1e-6, rate
rate = SGD(lr=0.5, lr_type='step', gamma=0.25, change_freq=3).proto.learning_rate
assert rate.step_conf.change_freq == 3 and rate.step_conf.gamma == 0.25, rate
"""
    done = in_world("alone", root, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_tests_during_training_use_the_requested_number_of_batches(root, in_world):
    program = """
from singa.model import *
x, y, w = mnist.load_data(batch_size=50)
def losses(steps):
    m = Sequential('beside', [])
    m.add(Dense(10, activation='softmax'))
    m.compile(optimizer=SGD(lr=1e-9), cluster=Cluster(w))
    m.fit(x, nb_epoch=4, with_test=True)
    result = m.evaluate(y, batch_size=50, test_steps=steps, test_freq=2)
    return [each['loss'] for reports in result.values() for each in reports if each['phase'] == 'test']
one, five, again = losses(1), losses(5), losses(5)
assert len(one) == len(five) >= 2, (one, five)
assert five == again and one[0] != five[0], (one, five)
"""
    done = in_world("alone", root, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_every_updater_trains(root, in_world):
    program = """
from singa import job_pb2
from singa.model import *
x, y, w = mnist.load_data(batch_size=100, random_skip=0)
made = [
    (SGD(lr=0.1, momentum=0.5), 'kSGD'),
    (Nesterov(lr=0.05, momentum=0.5), 'kNesterov'),
    (AdaGrad(lr=0.02), 'kAdaGrad'),
    (RMSProp(lr=0.002, rho=0.8), 'kRMSProp'),
    (AdaDelta(lr=1.0, rho=0.9, delta=1e-5), 'kAdaDelta'),
    (Adam(lr=0.002, beta1=0.8), 'kAdam'),
    (AdaMax(lr=0.002, beta2=0.99), 'kAdamMax'),
    (Updater('sgd', lr=0.1, lr_type='linear', change_freq=100, final_lr=0.05), 'kSGD'),
]
for updater, name in made:
    m = Sequential('updaters', [])
    m.add(Dense(10, activation='softmax'))
    m.compile(updater=updater, cluster=Cluster(w), topk=2)
    result = m.fit(x, nb_epoch=40, disp_freq=39)
    assert job_pb2.UpdaterType.Name(m.jobconf.updater.type) == name
    assert result[39][0]['loss'] < result[0][0]['loss'] - 0.3, (name, result)
"""
    done = in_world("alone", root, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr

"""Ranks that are given different arguments: pleiad.nn's fit, and experiments of neon."""

import sys

FIT = """
import sys
import numpy
import pleiad
from pleiad import nn

session = pleiad.init()
x = numpy.random.default_rng(1).normal(size=(60, 3)).astype('float32')
y = numpy.arange(60) % 2
net = nn.Sequential([nn.Dense(2)], input=(3,), loss=nn.SoftmaxLoss())
different = sys.argv[1] if session.rank == 1 else ''


class CountSteps(nn.Callback):
    steps = 0

    def on_step(self, step, metrics):
        self.steps += 1


counter = CountSteps()
callbacks = [nn.EarlyStopping('loss', patience=9)]
if different == 'patience':
    callbacks = [nn.EarlyStopping('loss', patience=2)]
if different == 'no EarlyStopping':
    callbacks = []
if different == 'a second EarlyStopping':
    callbacks.append(nn.EarlyStopping('loss', restore_best=True))
if different == 'callbacks that watch':
    callbacks += [counter, lambda record: None]
try:
    trainer = nn.Trainer(net, nn.SGD(0.2 if different == "rate" else 0.1), batch=10)
    trainer.fit(x, y, epochs=3 if different == 'epochs' else 2, seed=2 if different == 'seed' else 1, progress=False, callbacks=callbacks)
    assert counter.steps == (12 if counter in callbacks else 0)
    print('trained')
except pleiad.InvalidArgument as problem:
    print('said', problem)
session.shutdown()
"""


def said(folder, ranks=2):
    return [(folder / "1" / f"rank.{rank}" / "stdout").read_text() for rank in range(ranks)]


def test_ranks_that_fit_differently_all_raise(python_job, tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    expected = {
        "epochs": "epochs is 2 on rank 0 and 3 on rank 1",
        "rate": "updater.learning_rate is 0.1 on rank 0 and 0.2 on rank 1",
        "seed": "shuffled by seed 2",
        "patience": "EarlyStopping.patience is 9 on rank 0 and 2 on rank 1",
        "no EarlyStopping": "EarlyStopping is 'a callback' on rank 0 and missing on rank 1",
        "a second EarlyStopping": "EarlyStopping 2 is missing on rank 0 and 'a callback' on rank 1",
        "callbacks that watch": "trained",
        "nothing": "trained",
    }
    for different, words in expected.items():
        outputs = tmp_path / different
        done = python_job(2, script, different, outputs=outputs)
        assert done.returncode == 0, done.stderr
        texts = said(outputs)
        assert all(words in text for text in texts), texts
        assert texts[0] == texts[1]


def test_ranks_with_different_yaml_files_all_name_the_line(mpirun, python_env, tmp_path):
    for rank, rate in ((0, 0.1), (1, 0.3)):
        (tmp_path / f"own{rank}.yaml").write_text(f"a: 1\nb:\n  learning_rate: {rate}\n")
    program = (
        "import os, sys; from neon.cli import main; "
        f"sys.exit(main(['{tmp_path}/own' + os.environ['OMPI_COMM_WORLD_RANK'] + '.yaml']))"
    )
    done = mpirun(2, sys.executable, "-c", program, env=python_env)
    assert done.returncode != 0
    assert "line 3 is learning_rate: 0.1 on rank 0 and learning_rate: 0.3 on rank 1" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


NEON = """
import sys
import neon
import pleiad

TEXT = '''
!obj:neon.experiments.fit.FitExperiment {
  backend: !obj:neon.backends._numpy.Numpy {rng_seed: 1},
  datasets: [!obj:neon.datasets.iris.Iris {}],
  model: !obj:neon.models.mlp.MLP {
    num_epochs: 2, batch_size: 30, learning_rate: 0.1,
    layers: [!obj:neon.models.layer.Layer {name: o, nin: 5, nout: 3, activation: !obj:neon.transforms.logistic.Logistic {}}],
  },
}'''
CASES = {
    'nothing': ('', '', ''),
    'num_epochs': ('num_epochs: 2', 'num_epochs: 3', 'model.num_epochs is 2 on rank 0 and 3 on rank 1'),
    'rate': ('learning_rate: 0.1', 'learning_rate: 0.3', 'model.learning_rate is 0.1 on rank 0 and 0.3 on rank 1'),
    'activation': ('logistic.Logistic', 'tanh.Tanh', 'model.layers[0].activation is Logistic on rank 0 and Tanh on rank 1'),
    'samples': ('iris.Iris {}', 'iris.Iris {sample_pct: 50}', 'dataset.sample_pct is'),
}
with pleiad.init(timeout=30) as session:
    for name, (old, new, words) in CASES.items():
        text = TEXT.replace(old, new) if session.rank == 1 else TEXT
        try:
            neon.loads(text).run()
            problem = ''
        except pleiad.Error as met:
            problem = str(met)
        assert words in problem and bool(words) == bool(problem), (name, problem)
    print('compared')
"""


def test_ranks_with_different_experiments_all_name_the_difference(python_job, tmp_path):
    """Experiments that a script builds itself, so there is no file to compare."""
    script = tmp_path / "experiments.py"
    script.write_text(NEON)
    done = python_job(2, script, outputs=tmp_path / "out")
    texts = said(tmp_path / "out")
    assert done.returncode == 0 and all("compared" in text for text in texts), done.stderr

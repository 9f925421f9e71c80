"""Ranks that were given different things: pleiad.nn's fit, and experiments of neon."""

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
try:
    trainer = nn.Trainer(net, nn.SGD(0.2 if different == "rate" else 0.1), batch=10)
    trainer.fit(x, y, epochs=3 if different == 'epochs' else 2, seed=2 if different == 'seed' else 1, progress=False)
    print('trained')
except pleiad.InvalidArgument as problem:
    print('said', problem)
session.shutdown()
"""


def said(folder, ranks=2):
    return [(folder / "1" / f"rank.{rank}" / "stdout").read_text() for rank in range(ranks)]


def test_ranks_that_fit_differently_all_say_so(python_job, tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    expected = {
        "epochs": "epochs is 2 on rank 0 and 3 on rank 1",
        "rate": "updater.learning_rate is 0.1 on rank 0 and 0.2 on rank 1",
        "seed": "shuffled by seed 2",
        "nothing": "trained",
    }
    for different, words in expected.items():
        outputs = tmp_path / different
        done = python_job(2, script, different, outputs=outputs)
        assert done.returncode == 0, done.stderr
        texts = said(outputs)
        assert all(words in text for text in texts), texts
        assert texts[0] == texts[1]


def test_ranks_with_different_yaml_files_all_say_which_line(mpirun, python_env, tmp_path):
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

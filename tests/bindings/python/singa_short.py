"""Makes the blocks of docs/singa.md train few steps on few records, in a folder that the test created."""

import os

from singa import model

STEPS = int(os.environ.get("SINGA_STEPS", "3"))
_fit, _evaluate = model.Model.fit, model.Model.evaluate


def fit(self, *words, nb_epoch=0, **fields):
    return _fit(self, *words, nb_epoch=min(nb_epoch, STEPS), **fields)


def evaluate(self, *words, test_steps=1, test_freq=None, **fields):
    return _evaluate(self, *words, test_steps=1, test_freq=test_freq and 2, **fields)


model.Model.fit, model.Model.evaluate = fit, evaluate

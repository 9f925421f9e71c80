"""The cases to run SINGA (lines 247 to 271): train; train and validate; train and test; test only."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *

X_train, X_test, workspace = mnist.load_data()
_, X_valid, _ = mnist.load_data()


def model():
    m = Sequential("mlp", sys.argv)
    m.add(Dense(10, init="uniform", activation="softmax"))
    m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.01), cluster=Cluster(workspace))
    return m


found = {}
m = model()
if "test-only" in sys.argv:
    result = m.evaluate(X_test, batch_size=100, checkpoint_path=workspace + "/checkpoint/step100-worker0")
    found["test_only"] = result
else:
    found["train"] = m.fit(X_train, nb_epoch=20)
    m = model()
    found["validate"] = m.fit(X_train, validate_data=X_valid, nb_epoch=20)
    m = model()
    m.fit(X_train, nb_epoch=100, with_test=True)
    result = m.evaluate(X_test, batch_size=100, test_steps=100)
    found["test"] = result
report(**found)

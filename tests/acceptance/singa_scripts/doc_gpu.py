"""device= (lines 165 and 166), and a wrong number of devices."""

import sys

from _report import refused, report
from examples.datasets import mnist
from singa.model import *

X_train, X_test, workspace = mnist.load_data()


def model():
    m = Sequential("mlp", sys.argv)
    m.add(Dense(10, activation="softmax"))
    m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.01), cluster=Cluster(workspace))
    return m


def documented():
    m = model()
    gpu_id = [0]
    m.fit(X_train, nb_epoch=2, with_test=True, device=gpu_id)
    m.evaluate(X_test, batch_size=100, test_steps=1)


one = refused(documented)
three = refused(lambda: model().fit(X_train, nb_epoch=2, device=[0, 1, 2]))


def evaluate():
    m = model()
    m.fit(X_train, nb_epoch=2, with_test=True)
    m.evaluate(X_test, batch_size=100, test_steps=1, device=[0, 1, 2])


evaluated = refused(evaluate)
report(one=one, three=three, evaluated=evaluated)

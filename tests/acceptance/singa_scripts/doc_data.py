"""Data added explicitly (lines 230 to 242)."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *


found = {}


def classify(m):
    m.add(Dense(10, init="uniform", activation="softmax"))
    m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.01), cluster=Cluster("examples/mnist"))


X_train, X_test, workspace = mnist.load_data()  # parameter values are set in load_data()
m = Sequential("mlp", sys.argv)
m.add(X_train)  # explicitly add Data layer
m.add(X_test)  # explicitly add Data layer
classify(m)
m.fit(nb_epoch=4, with_test=True)
found["added"] = m.evaluate(test_steps=2, test_freq=2)

m = Sequential("mlp", sys.argv)
fields = dict(backend="kvfile", shape=784, mean_value=127.5, std_value=127.5)
store = Store(path="train.bin", batch_size=64, **fields)  # parameter values are set explicitly
m.add(Data(load="recordinput", phase="train", conf=store))  # Data layer is added
store = Store(path="test.bin", batch_size=100, **fields)  # parameter values are set explicitly
m.add(Data(load="recordinput", phase="test", conf=store))  # Data layer is added
classify(m)
m.fit(nb_epoch=4, with_test=True)
found["store"] = m.evaluate(test_steps=2, test_freq=2)
report(conf=str(m.jobconf), **found)

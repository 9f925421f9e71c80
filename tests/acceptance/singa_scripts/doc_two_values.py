"""load_data as lines 224 to 226 unpack it: two values, without the workspace."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *

X_train, X_test = mnist.load_data()  # parameter values are set in load_data()
m = Sequential("mlp", sys.argv)
m.add(Dense(10, init="uniform", activation="softmax"))
m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.01), cluster=Cluster("examples/mnist"))
m.fit(X_train, nb_epoch=2, with_test=True)  # Data layer for training is added
result = m.evaluate(X_test, batch_size=100, test_steps=1)  # Data layer for testing is added
report(result=result)

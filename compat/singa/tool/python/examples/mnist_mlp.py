"""A multi-layer perceptron on MNIST: bin/singa-run.sh -exec tool/python/examples/mnist_mlp.py"""

import sys

from examples.datasets import mnist
from singa.model import *

X_train, X_test, workspace = mnist.load_data()

m = Sequential("mlp", sys.argv)

m.add(Dense(2500, init="uniform", activation="stanh"))
m.add(Dense(2000, init="uniform", activation="stanh"))
m.add(Dense(1500, init="uniform", activation="stanh"))
m.add(Dense(1000, init="uniform", activation="stanh"))
m.add(Dense(500, init="uniform", activation="stanh"))
m.add(Dense(10, init="uniform", activation="softmax"))

sgd = SGD(lr=0.001, lr_type="step")
topo = Cluster(workspace)
m.compile(loss="categorical_crossentropy", optimizer=sgd, cluster=topo)
m.fit(X_train, nb_epoch=1000, with_test=True)
result = m.evaluate(X_test, batch_size=100, test_steps=10, test_freq=60)

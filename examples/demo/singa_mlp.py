"""A small perceptron as a SINGA script. The folder out/ holds its data, results and checkpoints.

pleiad launch -n 2 python examples/demo/singa_mlp.py
"""

import os
import pathlib
import sys

from singa.datasets import mnist
from singa.model import SGD, Cluster, Dense, Sequential

out = pathlib.Path("out/singa")
out.mkdir(parents=True, exist_ok=True)
os.chdir(out)
X_train, X_test, workspace = mnist.load_data()

m = Sequential("mlp", sys.argv)
m.add(Dense(256, init="uniform", activation="stanh"))
m.add(Dense(10, init="uniform", activation="softmax"))
m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.05), cluster=Cluster(workspace))
m.fit(X_train, nb_epoch=400, with_test=True)
result = m.evaluate(X_test, batch_size=100, test_steps=100, test_freq=200)

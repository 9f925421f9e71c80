"""Cluster topologies (the other classes, line 374): groups of workers and servers."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *


X_train, X_test, workspace = mnist.load_data()
topologies = {
    "sandblaster": dict(nworker_groups=1, nserver_groups=1, nworkers_per_group=2, nservers_per_group=2),
    "downpour": dict(nworker_groups=2, nserver_groups=1, nworkers_per_group=1, nservers_per_group=1),
    "allreduce": dict(nworker_groups=1, nserver_groups=1, nworkers_per_group=4, nservers_per_group=1),
    "hogwild": dict(nworker_groups=2, nserver_groups=2, nworkers_per_group=1, nservers_per_group=1),
}
found = {}
for name, topology in topologies.items():
    m = Sequential(name, sys.argv)
    m.add(Dense(10, init="uniform", activation="softmax"))
    topo = Cluster(workspace + "/" + name, **topology)
    m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.01), cluster=topo)
    m.fit(X_train, nb_epoch=20, with_test=True)
    found[name] = m.evaluate(X_test, batch_size=100, test_steps=5, test_freq=20)
report(**found)

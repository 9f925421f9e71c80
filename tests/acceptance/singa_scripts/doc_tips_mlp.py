"""Tips for the MLP (lines 174 to 195): a loop, separate activations, explicit parameters."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *

X_train, X_test, workspace = mnist.load_data()


def train(m):
    m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.001, lr_type="step"), cluster=Cluster(workspace))
    return m.fit(X_train, nb_epoch=2)


found = {}
m = Sequential("mlp", sys.argv)
for n in [2500, 2000, 1500, 1000, 500]:
    m.add(Dense(n, init="uniform", activation="tanh"))
m.add(Dense(10, init="uniform", activation="softmax"))
found["loop"] = train(m)

m = Sequential("mlp", sys.argv)
m.add(Dense(2500, init="uniform"))
m.add(Activation("tanh"))
m.add(Dense(10, init="uniform", activation="softmax"))
found["activation"] = train(m)

m = Sequential("mlp", sys.argv)
par = Parameter(init="uniform", scale=0.05)
m.add(Dense(2500, w_param=par, b_param=par, activation="tanh"))
m.add(Dense(2000, w_param=par, b_param=par, activation="tanh"))
m.add(Dense(1500, w_param=par, b_param=par, activation="tanh"))
m.add(Dense(1000, w_param=par, b_param=par, activation="tanh"))
m.add(Dense(500, w_param=par, b_param=par, activation="tanh"))
m.add(Dense(10, w_param=par, b_param=par, activation="softmax"))
found["explicit"] = train(m)
report(conf=str(m.jobconf), **found)

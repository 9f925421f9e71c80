"""Tips for the CNN (lines 200 to 217): Convolution, pool_size(3,3) and one Parameter for several layers."""

import sys

from _report import report
from examples.datasets import cifar10
from singa.model import *

X_train, X_test, workspace = cifar10.load_data()
m = Sequential("cnn", sys.argv)

parw = Parameter(init="gauss", std=0.0001)
parb = Parameter(init="const", value=0)
m.add(Convolution(32, 5, 1, 2, w_param=parw, b_param=parb, b_lr=2))
m.add(MaxPooling2D(pool_size(3, 3), stride=2))
m.add(Activation("relu"))
m.add(LRN2D(3, alpha=0.00005, beta=0.75))

parw.update(std=0.01)
m.add(Convolution(32, 5, 1, 2, w_param=parw, b_param=parb))
m.add(Activation("relu"))
m.add(AvgPooling2D(pool_size(3, 3), stride=2))
m.add(LRN2D(3, alpha=0.00005, beta=0.75))

m.add(Convolution(64, 5, 1, 2, w_param=parw, b_param=parb, b_lr=1))
m.add(Activation("relu"))
m.add(AvgPooling2D(pool_size(3, 3), stride=2))

m.add(Dense(10, w_param=parw, w_wd=250, b_param=parb, b_lr=2, b_wd=0, activation="softmax"))

m.compile(updater=SGD(lr=0.001), cluster=Cluster(workspace))
result = m.fit(X_train, nb_epoch=2)
report(result=result, conf=str(m.jobconf))

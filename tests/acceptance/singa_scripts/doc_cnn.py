"""The CNN example (lines 90 to 114), with two steps instead of 1000 and one test step instead of 30."""

import sys

from _report import report
from examples.datasets import cifar10
from singa.model import *

X_train, X_test, workspace = cifar10.load_data()

m = Sequential("cnn", sys.argv)

m.add(Convolution2D(32, 5, 1, 2, w_std=0.0001, b_lr=2))
m.add(MaxPooling2D(pool_size=(3, 3), stride=2))
m.add(Activation("relu"))
m.add(LRN2D(3, alpha=0.00005, beta=0.75))

m.add(Convolution2D(32, 5, 1, 2, b_lr=2))
m.add(Activation("relu"))
m.add(AvgPooling2D(pool_size=(3, 3), stride=2))
m.add(LRN2D(3, alpha=0.00005, beta=0.75))

m.add(Convolution2D(64, 5, 1, 2))
m.add(Activation("relu"))
m.add(AvgPooling2D(pool_size=(3, 3), stride=2))

m.add(Dense(10, w_wd=250, b_lr=2, b_wd=0, activation="softmax"))

sgd = SGD(decay=0.004, lr_type="manual", step=(0, 60000, 65000), step_lr=(0.001, 0.0001, 0.00001))
topo = Cluster(workspace)
m.compile(updater=sgd, cluster=topo)
m.fit(X_train, nb_epoch=2, with_test=True)
result = m.evaluate(X_test, 1000, test_steps=1, test_freq=300)

report(result=result, conf=str(m.jobconf))

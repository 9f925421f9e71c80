"""Several ways to set Parameter values (lines 342 to 365)."""

import sys

from _report import report
from examples.datasets import cifar10
from singa.model import *

X_train, X_test, workspace = cifar10.load_data()
m = Sequential("parameters", sys.argv)

parw = Parameter(lr=2, wd=10, init="gaussian", std=0.1)
parb = Parameter(lr=1, wd=0, init="constant", value=0)
m.add(Convolution2D(10, w_param=parw, b_param=parb, kernel=3, stride=8))

m.add(Dense(10, w_mean=1, w_std=0.1, w_lr=2, w_wd=10))

parw = Parameter(init="constant", mean=0)
m.add(Dense(10, w_param=parw, w_lr=1, w_wd=1, b_value=1))

m.add(Dropout(0.5))
m.add(Dense(10, activation="softmax"))
m.compile(loss="categorical_crossentropy", optimizer=SGD(lr=0.0001), cluster=Cluster(workspace))
result = m.fit(X_train, nb_epoch=2)


def field(param):
    kinds = param.init.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    return {
        "lr": param.lr_scale,
        "wd": param.wd_scale,
        "init": kinds[param.init.type].name,
        "value": param.init.value,
        "mean": param.init.mean,
        "std": param.init.std,
    }


params = [[field(param) for param in layer.param] for layer in m.jobconf.neuralnet.layer if len(layer.param)]
report(result=result, params=params)

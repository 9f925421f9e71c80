"""The MLP example (lines 65 to 80), with three steps instead of 1000."""

import sys

from _report import report
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
m.fit(X_train, nb_epoch=3, with_test=True)
result = m.evaluate(X_test, batch_size=100, test_steps=10, test_freq=60)

# "The configuration content is the same as that written in SINGAROOT/examples/mnist/job.conf."
from google.protobuf import text_format
from pb2 import job_pb2

written = job_pb2.JobProto()
text_format.Parse(open("examples/mnist/job.conf").read(), written)


def content(job):
    layers = [
        (layer.type, layer.innerproduct_conf.num_output, [(p.init.type, p.init.low, p.init.high) for p in layer.param])
        for layer in job.neuralnet.layer
    ]
    return [layers, job.updater.SerializeToString(deterministic=True).hex()]


same = content(m.jobconf) == content(written)
report(same=same, result=result, workspace=workspace, layers=len(m.layers), conf=str(m.jobconf))

"""The auto-encoder example (lines 144 to 154), with three steps instead of 12200."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *

rbmid = 4
X_train, X_test, workspace = mnist.load_data(nb_rbm=rbmid + 1)
m = Sequential("autoencoder", sys.argv)

hid_dim = [1000, 500, 250, 30]
m.add(Autoencoder(hid_dim, out_dim=784, activation="sigmoid", param_share=True))

agd = AdaGrad(lr=0.01)
topo = Cluster(workspace)
m.compile(loss="mean_squared_error", optimizer=agd, cluster=topo)
result = m.fit(X_train, alg="bp", nb_epoch=3)

report(result=result, workspace=workspace, conf=str(m.jobconf))

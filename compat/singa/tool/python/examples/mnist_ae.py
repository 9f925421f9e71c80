"""The auto-encoder of the four machines, fine-tuned: bin/singa-run.sh -exec tool/python/examples/mnist_ae.py"""

import sys

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
m.fit(X_train, alg="bp", nb_epoch=12200)

"""Machine 3 of a stack of RBMs on MNIST: bin/singa-run.sh -exec tool/python/examples/mnist_rbm3.py"""

import sys

from examples.datasets import mnist
from singa.model import *

rbmid = 3
X_train, X_test, workspace = mnist.load_data(nb_rbm=rbmid)
m = Energy("rbm" + str(rbmid), sys.argv)

out_dim = [1000, 500, 250]
m.add(RBM(out_dim, w_std=0.1, b_wd=0))

sgd = SGD(lr=0.1, decay=0.0002, momentum=0.8)
topo = Cluster(workspace)
m.compile(optimizer=sgd, cluster=topo)
m.fit(X_train, alg="cd", nb_epoch=6000)

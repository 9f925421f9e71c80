"""The RBM example (lines 124 to 134), with two steps instead of 6000. The argument -rbm names the machine of the stack."""

import sys

from _report import report
from examples.datasets import mnist
from singa.model import *

rbmid = 3
if "-rbm" in sys.argv:
    rbmid = int(sys.argv[sys.argv.index("-rbm") + 1])
    del sys.argv[sys.argv.index("-rbm") : sys.argv.index("-rbm") + 2]
X_train, X_test, workspace = mnist.load_data(nb_rbm=rbmid)
m = Energy("rbm" + str(rbmid), sys.argv)

out_dim = [1000, 500, 250, 30][:rbmid]
m.add(RBM(out_dim, w_std=0.1, b_wd=0))

sgd = SGD(lr=0.1, decay=0.0002, momentum=0.8)
topo = Cluster(workspace)
m.compile(optimizer=sgd, cluster=topo)
result = m.fit(X_train, alg="cd", nb_epoch=2)

report(result=result, workspace=workspace)

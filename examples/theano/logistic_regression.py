"""Logistic regression on Fashion-MNIST with Theano, or PyTensor.

    python ./examples/theano/logistic_regression.py
    mpirun -np 4 python ./examples/theano/logistic_regression.py

Lines that were added to a script for one process are marked MULTIVERSO.
"""

import argparse
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# MULTIVERSO: each shared variable gets a table that all processes share
import multiverso as mv
from multiverso.theano_ext import backend, sharedvar

# MULTIVERSO: imports theano, with the settings that it needs today, or pytensor
theano = backend.load()
T = theano.tensor


class LogisticRegression:
    def __init__(self, input, n_in, n_out):
        # MULTIVERSO: mv_shared in place of theano.shared
        self.W = sharedvar.mv_shared(value=numpy.zeros((n_in, n_out), dtype="float32"), name="W", borrow=True)
        self.b = sharedvar.mv_shared(value=numpy.zeros((n_out,), dtype="float32"), name="b", borrow=True)
        scores = T.dot(input, self.W) + self.b
        scores = scores - T.max(scores, axis=1, keepdims=True)
        self.log_p = scores - T.log(T.sum(T.exp(scores), axis=1, keepdims=True))
        self.params = [self.W, self.b]

    def negative_log_likelihood(self, y):
        return -T.mean(self.log_p[T.arange(y.shape[0]), y])

    def accuracy(self, y):
        return T.mean(T.eq(T.argmax(self.log_p, axis=1), y))


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.1)
    options = parser.parse_args()

    # MULTIVERSO: start; each worker trains on its part of every batch and makes its part of the step
    mv.init(sync=options.sync)
    images, labels, test_images, test_labels = fashion.load(options.samples, options.data)
    workers = mv.workers_num()
    images, labels, batch = fashion.share(images, labels, mv.worker_id(), workers, options.batch)
    rate = numpy.float32(options.rate / workers)

    x, y = T.matrix("x", dtype="float32"), T.ivector("y")
    classifier = LogisticRegression(input=x, n_in=28 * 28, n_out=10)
    cost = classifier.negative_log_likelihood(y)
    updates = [(param, param - rate * theano.grad(cost, param)) for param in classifier.params]
    train = theano.function([x, y], cost, updates=updates)
    test = theano.function([x, y], [cost, classifier.accuracy(y)])

    batches = len(images) // batch
    # MULTIVERSO: the clock starts when all workers have compiled; only worker 0 shows progress and validates
    mv.barrier()
    examples = len(images) * workers
    watch = fashion.Watch(mv.is_master_worker(), options.epochs, batches, examples, options.curve)
    for epoch in range(options.epochs):
        for index in range(batches):
            part = slice(index * batch, (index + 1) * batch)
            train(images[part], labels[part])
            # MULTIVERSO: add the changes of this batch, and fetch the sum of all workers' changes
            sharedvar.sync_all_mv_shared_vars()
            watch.batch(epoch, index + 1)
        # MULTIVERSO: wait, so that worker 0 tests the model of the complete epoch
        mv.barrier()
        sharedvar.sync_all_mv_shared_vars()
        watch.epoch(epoch, lambda: test(test_images, test_labels))

    # MULTIVERSO: the end
    mv.shutdown()


if __name__ == "__main__":
    main()

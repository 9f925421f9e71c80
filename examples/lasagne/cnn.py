"""A small convolutional network on Fashion-MNIST with Lasagne.

    python ./examples/lasagne/cnn.py
    mpirun -np 4 python ./examples/lasagne/cnn.py

Lines that were added to a script for one process are marked MULTIVERSO.
"""

import argparse
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# MULTIVERSO: imported before lasagne and theano, so that Lasagne 0.1 works with Theano 1.0
import multiverso as mv
from multiverso.theano_ext.lasagne_ext import param_manager

import lasagne  # isort: skip
import theano  # isort: skip
import theano.tensor as T  # isort: skip
from lasagne.nonlinearities import rectify, softmax  # isort: skip


def build_model(input_var):
    network = lasagne.layers.InputLayer(shape=(None, 1, 28, 28), input_var=input_var)
    network = lasagne.layers.Conv2DLayer(network, num_filters=8, filter_size=(5, 5), nonlinearity=rectify)
    network = lasagne.layers.MaxPool2DLayer(network, pool_size=(2, 2))
    network = lasagne.layers.Conv2DLayer(network, num_filters=16, filter_size=(5, 5), nonlinearity=rectify)
    network = lasagne.layers.MaxPool2DLayer(network, pool_size=(2, 2))
    network = lasagne.layers.DenseLayer(network, num_units=64, nonlinearity=rectify)
    return lasagne.layers.DenseLayer(network, num_units=10, nonlinearity=softmax)


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.03)
    options = parser.parse_args()

    # MULTIVERSO: start; each worker trains on its part of every batch and makes its part of the step
    mv.init(sync=options.sync)
    images, labels, test_images, test_labels = fashion.load(options.samples, options.data)
    workers = mv.workers_num()
    images, labels, batch = fashion.share(images, labels, mv.worker_id(), workers, options.batch)
    rate = numpy.float32(options.rate / workers)
    images, test_images = images.reshape(-1, 1, 28, 28), test_images.reshape(-1, 1, 28, 28)

    x, y = T.tensor4("x", dtype="float32"), T.ivector("y")
    lasagne.random.set_rng(numpy.random.RandomState(1))
    network = build_model(x)
    # MULTIVERSO: all parameters in one table, which starts with the values of worker 0
    manager = param_manager.LasagneParamManager(network)

    p = T.clip(lasagne.layers.get_output(network), 1e-7, 1)
    cost = lasagne.objectives.categorical_crossentropy(p, y).mean()
    params = lasagne.layers.get_all_params(network, trainable=True)
    train = theano.function([x, y], cost, updates=lasagne.updates.sgd(cost, params, rate))
    test_batch = theano.function([x, y], [cost, T.mean(T.eq(T.argmax(p, axis=1), y))])

    def test():
        cuts = range(0, len(test_images), 500)
        parts = [test_batch(test_images[cut : cut + 500], test_labels[cut : cut + 500]) for cut in cuts]
        return numpy.average(parts, axis=0, weights=[len(test_images[cut : cut + 500]) for cut in cuts])

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
            manager.sync_all_param()
            watch.batch(epoch, index + 1)
        # MULTIVERSO: wait, so that worker 0 tests the model of the complete epoch
        mv.barrier()
        manager.sync_all_param()
        watch.epoch(epoch, test)

    # MULTIVERSO: the end
    mv.shutdown()


if __name__ == "__main__":
    main()

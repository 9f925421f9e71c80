"""Managers of Lasagne's parameters (document 000, lines 127 to 141; document 001, lines 76 to 86)."""

import multiverso as mv

mv.init()

import numpy
from multiverso.theano_ext.lasagne_ext import param_manager
from report import report

import lasagne
import theano
import theano.tensor as T

me = mv.worker_id()
lasagne.random.set_rng(numpy.random.RandomState(me + 1))  # every worker begins with another model


def build_model():
    network = lasagne.layers.InputLayer((None, 5))
    network = lasagne.layers.DenseLayer(network, 4)
    return lasagne.layers.DenseLayer(network, 2, nonlinearity=lasagne.nonlinearities.softmax)


def values(network):
    return [value.tolist() for value in lasagne.layers.get_all_param_values(network)]


def train(network):
    x, y = T.matrix("x", dtype=theano.config.floatX), T.ivector("y")
    loss = lasagne.objectives.categorical_crossentropy(lasagne.layers.get_output(network, x), y).mean()
    updates = lasagne.updates.sgd(loss, lasagne.layers.get_all_params(network, trainable=True), learning_rate=0.5)
    step = theano.function([x, y], loss, updates=updates)
    rng = numpy.random.RandomState(10 + me)
    for _ in range(3):
        step(rng.rand(8, 5).astype(theano.config.floatX), rng.randint(0, 2, 8).astype("int32"))


found = {}
# Document 000.
network = build_model()  # build_model is a function you implement to build model
found["own"] = values(network)
# The LasagneParamManager will initialize the parameters and sync them with
# parameter server
lpm = param_manager.LasagneParamManager(network)
found["initial"] = values(network)
mv.barrier()
# Train the model
train(network)
found["trained"] = values(network)
# When you are ready to add the delta of the variable in this model to the parameter
# server and get the latest value, you can run this function
lpm.sync_all_param()
mv.barrier()
lpm.sync_all_param()
found["final"] = values(network)

# Document 001.
is_master_worker = mv.is_master_worker()
network = build_model()  # build_model is a function you implement to build model
found["old_own"] = values(network)
mvnpm = param_manager.MVNetParamManager(network, is_master_worker)
found["old_initial"] = values(network)
mv.barrier()
# training the model
train(network)
found["old_trained"] = values(network)
mvnpm.update_all_param()
mv.barrier()
mvnpm.update_all_param()
found["old_final"] = values(network)
report(me, **found)
mv.shutdown()

"""Lasagne 0.1 on Theano 1.0.5."""

import harness
import numpy
from harness import block, fails, same_everywhere

import multiverso as mv
import pleiad
from multiverso.theano_ext.lasagne_ext import param_manager

# Must follow the import above, which supplies what Theano 1.0 no longer has.
import lasagne  # isort: skip
import theano  # isort: skip
import theano.tensor as T  # isort: skip


def build_model():
    """Every worker draws different initial values."""
    lasagne.random.set_rng(numpy.random.RandomState(mv.worker_id() + 1))
    network = lasagne.layers.InputLayer((None, 1, 8, 8))
    network = lasagne.layers.Conv2DLayer(network, num_filters=4, filter_size=(3, 3))
    network = lasagne.layers.MaxPool2DLayer(network, pool_size=(2, 2))
    return lasagne.layers.DenseLayer(network, num_units=3, nonlinearity=lasagne.nonlinearities.softmax)


def values(network):
    return lasagne.layers.get_all_param_values(network)


def flat(network):
    return numpy.concatenate([value.ravel() for value in values(network)])


def first_of(worker):
    """Returns the initial values of build_model on that worker."""
    lasagne.random.set_rng(numpy.random.RandomState(worker + 1))
    shape = values(build_model())[0].shape
    lasagne.random.set_rng(numpy.random.RandomState(worker + 1))
    return lasagne.init.GlorotUniform().sample(shape)


def changes_are_summed(network, sync_all):
    workers = mv.workers_num()
    mv.barrier()  # no worker adds before all have read the initial values
    before = flat(network)
    lasagne.layers.set_all_param_values(network, [value + numpy.float32(1) for value in values(network)])
    sync_all()
    mv.barrier()
    sync_all()
    mv.barrier()
    numpy.testing.assert_allclose(flat(network), before + workers, rtol=1e-5)
    assert same_everywhere(flat(network))


def the_document_s_block(sync):
    names = {"build_model": build_model}
    exec(block("lasagne_manager"), names)
    assert (values(names["network"])[0] == first_of(0)).all()
    changes_are_summed(names["network"], names["lpm"].sync_all_param)
    assert len(mv.api._session().metrics()["tables"]) == 1


def the_older_document_s_block_with_any_worker_as_the_master(sync):
    for master in range(mv.workers_num()):
        names = {"build_model": build_model, "is_master_worker": mv.worker_id() == master}
        exec(block("lasagne_net_manager"), names)
        assert (values(names["network"])[0] == first_of(master)).all(), master
        changes_are_summed(names["network"], names["mvnpm"].update_all_param)


def no_master_or_two_is_an_error_at_all_workers(sync):
    network = build_model()
    with fails(pleiad.InvalidArgument, "expected true in exactly one process; received true in none"):
        param_manager.MVNetParamManager(network, False)
    if mv.workers_num() > 1:
        with fails(pleiad.InvalidArgument, "received true at the ranks 0, 1$"):
            param_manager.MVNetParamManager(network, mv.worker_id() < 2)
    param_manager.MVNetParamManager(network, mv.is_master_worker()).update_all_param()  # the session is still usable


def a_network_trains(sync):
    network = build_model()
    manager = param_manager.LasagneParamManager(network)
    x, y = T.tensor4(), T.ivector()
    loss = lasagne.objectives.categorical_crossentropy(lasagne.layers.get_output(network, x), y).mean()
    updates = lasagne.updates.sgd(loss, lasagne.layers.get_all_params(network, trainable=True), 0.05)
    train = theano.function([x, y], loss, updates=updates)
    random = numpy.random.RandomState(mv.worker_id())
    labels = random.randint(0, 3, 64).astype("int32")
    images = random.rand(64, 1, 8, 8).astype("float32")
    for image, label in zip(images, labels):
        image[:, 2 * label : 2 * label + 4] += 1
    losses = []
    for _ in range(30):
        losses.append(train(images, labels))
        manager.sync_all_param()
        if sync:
            assert same_everywhere(flat(network))
    assert losses[-1] < 0.9 * losses[0], losses


if __name__ == "__main__":
    harness.run(globals())

"""Keras 1 and 2 on Theano, and Keras 3 on PyTorch and JAX: whichever this interpreter finds."""

import harness
import numpy
from harness import block, fails, same_everywhere

import multiverso as mv
import pleiad
from multiverso.theano_ext.keras_ext.callbacks import MVCallback
from multiverso.theano_ext.param_manager import KerasParamManager

# Must follow the imports above, which make the old versions work.
import keras  # isort: skip
from keras.layers import Dense  # isort: skip
from keras.models import Sequential  # isort: skip

MAJOR = int(keras.__version__.partition(".")[0])
EPOCHS = "nb_epoch" if MAJOR == 1 else "epochs"


def built(worker_value=None):
    model = Sequential()
    return build(model, worker_value)


def build(model, worker_value=None):
    if MAJOR >= 3:
        model.add(keras.Input((6,)))
        model.add(Dense(5, activation="tanh"))
    else:
        model.add(Dense(5, activation="tanh", input_shape=(6,)))
    model.add(Dense(2, activation="softmax"))
    random = numpy.random.RandomState(mv.worker_id())
    values = model.get_weights()
    if worker_value is None:
        model.set_weights([random.uniform(-0.5, 0.5, value.shape).astype("float32") for value in values])
    else:
        model.set_weights([numpy.full_like(value, worker_value) for value in values])
    sgd = keras.optimizers.SGD(learning_rate=0.1) if MAJOR >= 3 else keras.optimizers.SGD(lr=0.1)
    model.compile(loss="categorical_crossentropy", optimizer=sgd)
    return model


def data(count=48):
    random = numpy.random.RandomState(mv.worker_id())
    labels = random.randint(0, 2, count)
    x = random.rand(count, 6).astype("float32") + labels[:, None].astype("float32")
    return x, numpy.eye(2, dtype="float32")[labels]


def flat(model):
    return numpy.concatenate([value.ravel() for value in model.get_weights()])


def the_document_s_block(sync):
    """`build` is the function that builds and compiles the model, as the document asks."""
    x, y = data()
    names = {"Sequential": Sequential, "build": build, "X_train": x, "Y_train": y, "X_test": x, "Y_test": y}
    names |= {"batch_size": 16, "nb_epoch": 2}
    changes = {"# build and compile your model here": "build(model)", "shuffle=True": "shuffle=True, verbose=0"}
    if MAJOR >= 3:
        changes["nb_epoch=nb_epoch"] = "epochs=nb_epoch"
    exec(block("keras_callback", changes), names)
    if sync:
        assert same_everywhere(flat(names["model"]))
    assert len(mv.api._session().metrics()["tables"]) == 1


def it_starts_with_the_master_s_weights(sync):
    model = built(worker_value=mv.worker_id() + 3)
    KerasParamManager(model)
    assert (flat(model) == 3).all()


def weights_of_one_process_and_zeros_elsewhere(sync):
    for giver in range(mv.workers_num()):
        model = built(worker_value=2 if mv.worker_id() == giver else 0)
        MVCallback(model)
        assert (flat(model) == 2).all(), giver


def changes_are_summed(sync):
    workers = mv.workers_num()
    model = built(worker_value=1)
    manager = KerasParamManager(model)
    for k in range(1, 4):
        model.set_weights([value + numpy.float32(mv.worker_id() + 1) for value in model.get_weights()])
        manager.sync_all_param()
        if not sync:
            mv.barrier()
            manager.sync_all_param()
            mv.barrier()
        assert (flat(model) == 1 + k * workers * (workers + 1) / 2).all()


def alone_the_callback_changes_nothing(sync):
    """With one worker, a run with the callback ends with exactly the weights of a run without it."""
    if mv.workers_num() > 1:
        return
    x, y = data()
    plain, synced = built(), built()
    synced.set_weights(plain.get_weights())
    for model, callbacks in ((plain, []), (synced, [MVCallback(synced)])):
        model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=callbacks, **{EPOCHS: 3})
    numpy.testing.assert_allclose(flat(synced), flat(plain), rtol=1e-5, atol=1e-6)


def it_syncs_every_freq_batches_and_at_the_end(sync):
    x, y = data()
    model = built()
    for freq, syncs in ((1, 6), (2, 3), (4, 2), (100, 1)):
        callback = MVCallback(model, freq=freq)
        calls = []
        sync_all = callback._manager.sync_all_param
        callback._manager.sync_all_param = lambda: (calls.append(1), sync_all())
        model.fit(x, y, batch_size=16, verbose=0, callbacks=[callback], **{EPOCHS: 2})
        assert len(calls) == syncs, (freq, len(calls))
        if sync:
            assert same_everywhere(flat(model))


def a_model_trains(sync):
    x, y = data(160)
    model = built()
    callback = MVCallback(model)
    first = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[callback], **{EPOCHS: 4})
    mv.barrier()
    assert model.evaluate(x, y, verbose=0) < 0.8 * first


def bad_input_is_refused_in_words(sync):
    model = built()
    for freq in (0, -1, 1.5, "often"):
        with fails(pleiad.InvalidArgument, "freq: expected an integer of 1 or more; received"):
            MVCallback(model, freq=freq)
    empty = Sequential()
    with fails(ValueError, "has none yet: give its first layer an input shape, or build it"):
        MVCallback(empty)


if __name__ == "__main__":
    harness.run(globals())

"""A small network on Fashion-MNIST with the original Keras (1.2 or 2.3) on Theano. mlp_keras3.py is for Keras 3.

    python ./examples/keras/mlp.py
    mpirun -np 4 python ./examples/keras/mlp.py

Lines that were added to a script for one process are marked MULTIVERSO.
"""

import argparse
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# MULTIVERSO: imported before keras, because Keras 1 and 2 need names that Python 3.10 removed
import multiverso as mv
from multiverso.theano_ext.keras_ext.callbacks import MVCallback

from keras.callbacks import LambdaCallback  # isort: skip
from keras.layers import Activation, Dense  # isort: skip
from keras.models import Sequential  # isort: skip
from keras.optimizers import SGD  # isort: skip


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.05)
    options = parser.parse_args()

    # MULTIVERSO: start; each worker trains on its part of every batch and makes its part of the step
    mv.init(sync=options.sync)
    X_train, y_train, X_test, y_test = fashion.load(options.samples, options.data)
    workers = mv.workers_num()
    X_train, y_train, batch = fashion.share(X_train, y_train, mv.worker_id(), workers, options.batch)
    rate = numpy.float32(options.rate / workers)
    Y_train, Y_test = numpy.eye(10, dtype="float32")[y_train], numpy.eye(10, dtype="float32")[y_test]

    model = Sequential()
    model.add(Dense(128, input_shape=(784,)))
    model.add(Activation("relu"))
    model.add(Dense(10))
    model.add(Activation("softmax"))
    model.compile(loss="categorical_crossentropy", optimizer=SGD(lr=float(rate)), metrics=["accuracy"])

    # MULTIVERSO: only worker 0 shows progress and validates
    examples = len(X_train) * workers
    batches = len(X_train) // batch
    watch = fashion.Watch(mv.is_master_worker(), options.epochs, batches, examples, options.curve)
    at = [0]
    shown = LambdaCallback(
        on_epoch_begin=lambda epoch, logs: at.__setitem__(0, epoch),
        on_batch_end=lambda batch, logs: watch.batch(at[0], batch + 1),
        on_epoch_end=lambda epoch, logs: watch.epoch(epoch, lambda: model.evaluate(X_test, Y_test, verbose=0)),
    )
    model.fit(
        X_train,
        Y_train,
        batch_size=batch,
        nb_epoch=options.epochs,
        verbose=0,
        shuffle=True,
        callbacks=[MVCallback(model), shown],  # MULTIVERSO: the callback syncs the model after every mini-batch
    )

    # MULTIVERSO: the end
    mv.shutdown()


if __name__ == "__main__":
    main()

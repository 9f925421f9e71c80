"""A convolutional network on Fashion-MNIST with Keras 3, on PyTorch or on JAX.

    KERAS_BACKEND=torch python ./examples/keras/keras3_cnn.py
    KERAS_BACKEND=jax pleiad launch -n 4 python ./examples/keras/keras3_cnn.py

Lines that were added to a script for one process are marked PLEIAD.
"""

import argparse
import pathlib
import sys

import keras
from keras import layers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import fashion

# PLEIAD: the only imports
import pleiad
import pleiad.keras


def main():
    parser = fashion.add_options(argparse.ArgumentParser(description=__doc__.partition("\n")[0]))
    parser.add_argument("--batch", type=int, default=128, help="batch size of all workers together")
    parser.add_argument("--rate", type=float, default=0.05)
    options = parser.parse_args()

    # PLEIAD: start; each worker trains on its part of every batch
    session = pleiad.init()
    keras.utils.set_random_seed(1 + session.worker_id)
    train_x, train_y, test_x, test_y = fashion.load(options.samples, options.data)
    train_x, train_y, batch = fashion.share(train_x, train_y, session.worker_id, session.workers, options.batch)

    model = keras.Sequential(
        [
            keras.Input((784,)),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(16, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(options.rate, momentum=0.9),
        metrics=["accuracy"],
    )

    batches = len(train_x) // batch
    # PLEIAD: only rank 0 shows progress and validates
    watch = fashion.Watch(session.is_master, options.epochs, batches, len(train_x) * session.workers, options.curve)
    at = [0]
    shown = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: at.__setitem__(0, epoch),
        on_train_batch_end=lambda i, logs: watch.batch(at[0], i + 1),
        on_epoch_end=lambda epoch, logs: watch.epoch(epoch, lambda: model.evaluate(test_x, test_y, verbose=0)),
    )
    # PLEIAD: average the weights of all workers after every batch (--sync), or exchange them without waiting
    sync = pleiad.keras.Sync(clock="sync" if options.sync else "async", average=True)
    model.fit(train_x, train_y, batch_size=batch, epochs=options.epochs, verbose=0, callbacks=[sync, shown])

    # PLEIAD: the end
    session.shutdown()


if __name__ == "__main__":
    main()

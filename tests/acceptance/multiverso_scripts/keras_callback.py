"""The callback of Keras (document 000, lines 153 to 166)."""

import sys

import multiverso as mv

mv.init(sync="sync" in sys.argv)

import numpy
from multiverso.theano_ext.keras_ext.callbacks import MVCallback
from report import report

from keras.callbacks import Callback
from keras.layers import Dense
from keras.models import Sequential

me, workers = mv.worker_id(), mv.workers_num()
numpy.random.seed(me + 1)
rng = numpy.random.RandomState(me)
X_train, Y_train = rng.rand(40, 4).astype("float32"), rng.rand(40, 2).astype("float32")
X_test, Y_test = rng.rand(8, 4).astype("float32"), rng.rand(8, 2).astype("float32")
batch_size, nb_epoch = 8, 2

model = Sequential()
# build and compile your model here
model.add(Dense(3, input_dim=4, activation="relu"))
model.add(Dense(2))
model.compile(loss="mse", optimizer="sgd")


def flat():
    return numpy.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()


class Record(Callback):
    begun, batches, validated = None, [], []

    def on_train_begin(self, logs=None):
        Record.begun = flat()

    def on_batch_end(self, batch, logs=None):
        Record.batches.append(flat())

    def on_epoch_end(self, epoch, logs=None):
        Record.validated.append("val_loss" in (logs or {}))


own = flat()
# Train the model
model.fit(
    X_train,
    Y_train,
    batch_size=batch_size,
    nb_epoch=nb_epoch,
    validation_data=(X_test, Y_test),
    shuffle=True,
    callbacks=[MVCallback(model), Record()],
    verbose=0,
)  # The only difference is that you add callbacks here
mv.barrier()
report(me, own=own, begun=Record.begun, batches=Record.batches, validated=Record.validated)
mv.shutdown()

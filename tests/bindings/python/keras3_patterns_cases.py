"""Patterns of common Keras scripts, on the backend that KERAS_BACKEND names, compared with one process on the joined
batch.
"""

import os
import re
import tempfile

import keras
import numpy as np
from cases import raises, run
from keras3_cases import Bad, data, equal_on_all, make, start

import pleiad
import pleiad.keras

Distributed = pleiad.keras.DistributedOptimizer
EPOCHS = 2


def close(model, wanted):
    for a, b in zip(model.get_weights(), wanted.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def fit(model, x, y, batch, **more):
    return model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, **{"epochs": EPOCHS, **more})


class Custom(keras.Model):
    """A model with its own train_step."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)

    def build(self, shape):
        self.hidden.build(shape)
        self.out.build((None, 5))

    def call(self, x):
        return self.out(self.hidden(x))

    if keras.backend.backend() == "jax":

        def loss_of(self, trained, others, x, y):
            made, others = self.stateless_call(trained, others, x)
            return keras.ops.mean((made - y) ** 2), others

        def train_step(self, state, data):
            import jax

            trained, others, optimizer, metrics = state
            x, y = data
            (loss, others), grads = jax.value_and_grad(self.loss_of, has_aux=True)(trained, others, x, y)
            trained, optimizer = self.optimizer.stateless_apply(optimizer, grads, trained)
            return {"loss": loss}, (trained, others, optimizer, metrics)

    else:

        def train_step(self, data):
            x, y = data
            self.zero_grad()
            loss = keras.ops.mean((self(x) - y) ** 2)
            loss.backward()
            self.optimizer.apply([v.value.grad for v in self.trainable_weights], self.trainable_weights)
            return {"loss": loss}


def test_the_wrapped_optimizer_trains_as_one_process_on_the_joined_batch():
    with start() as s:
        x, y, my_x, my_y = data(s)
        for optimizer in (
            lambda: keras.optimizers.Adam(0.02, clipnorm=0.5),
            lambda: keras.optimizers.SGD(0.3, momentum=0.9),
        ):
            serial, model = make(0), make(s.rank)
            serial.compile(loss="mse", optimizer=optimizer())
            fit(serial, x, y, 6 * s.size)
            wrapped = Distributed(optimizer(), model=model)
            model.compile(loss="mse", optimizer=wrapped)
            assert isinstance(wrapped, type(optimizer())) and model.optimizer is wrapped
            fit(model, my_x, my_y, 6)
            close(model, serial)
            equal_on_all(s, model)


def test_a_user_defined_train_step():
    with start() as s:
        x, y, my_x, my_y = data(s)
        models = []
        for seed, rows, targets, batch, wrap in (
            (0, x, y, 6 * s.size, lambda o: o),
            (s.rank, my_x, my_y, 6, Distributed),
        ):
            keras.utils.set_random_seed(seed)
            model = Custom()
            model.build((None, 3))
            model.compile(optimizer=wrap(keras.optimizers.SGD(0.1)))
            fit(model, rows, targets, batch)
            models.append(model)
        close(models[1], models[0])
        equal_on_all(s, models[1])


def test_a_wrapped_optimizer_is_saved_as_its_own_class_and_wrapped_again_with_its_state():
    with start() as s:
        _, _, x, y = data(s)
        model = make(s.rank)
        model.compile(loss="mse", optimizer=Distributed(keras.optimizers.Adam(0.01)))
        fit(model, x, y, 6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            model.save(path)
            loaded = keras.models.load_model(path)
        # On PyTorch, the class is a subclass of keras.optimizers.Adam.
        assert type(loaded.optimizer) is type(keras.optimizers.Adam())
        assert int(loaded.optimizer.iterations) == EPOCHS * 4
        if s.rank > 0:  # as if only rank 0 had loaded the file
            for weight in [*loaded.weights, *loaded.optimizer.variables]:
                weight.assign(weight.value * 0)
        loaded.optimizer = Distributed(loaded.optimizer, model=loaded)
        equal_on_all(s, loaded)
        fit(loaded, x, y, 6)
        fit(model, x, y, 6)
        close(loaded, model)


def test_callbacks_decide_by_the_metrics_of_all_ranks():
    with start() as s:
        _, _, x, y = data(s)
        model = make(s.rank, normalised=True)
        model.compile(loss="mse", optimizer=Distributed(keras.optimizers.SGD(0.05)))
        # Metrics of one rank would stop the ranks at different epochs, because their losses improve at different rates.
        stop = keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=0.02, restore_best_weights=True)
        rate = keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.1)
        seen = fit(
            model,
            x,
            y,
            6,
            epochs=8,
            validation_data=(x * (1 + s.rank), y),
            callbacks=[pleiad.keras.AverageMetrics(), stop, rate],
        )
        losses = np.array(seen.history["val_loss"] + seen.history["loss"] + [float(model.optimizer.learning_rate)])
        count = s.all_gather(np.array([len(losses)]))
        assert (count == len(losses)).all() and (s.all_gather(losses) == losses).all()
        equal_on_all(s, model)


class Assign(keras.callbacks.Callback):
    """Sets every weight to a value at one of the callbacks."""

    def __init__(self, at, value, ranks=None):
        super().__init__()
        self.at, self.value, self.ranks = at, value, ranks

    def act(self, at):
        if at == self.at and (self.ranks is None or pleiad.session().rank in self.ranks):
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            self.model.set_weights([np.full_like(w, self.value) for w in self.model.get_weights()])

    def on_train_batch_end(self, batch, logs=None):
        self.act("batch")

    def on_epoch_end(self, epoch, logs=None):
        self.act("epoch")

    def on_train_end(self, logs=None):
        self.act("end")


def test_an_assignment_is_an_assignment():
    with start() as s:
        _, _, x, y = data(s)
        for average in (True, False):
            for at in ("batch", "epoch", "end"):
                model = make(s.rank)
                fit(model, x, y, 6, callbacks=[Assign(at, 5.0), pleiad.keras.Sync(clock="sync", average=average)])
                assert all((w == 5).all() for w in model.get_weights()), (average, at)
        model = make(s.rank)
        sync = pleiad.keras.Sync()
        fit(model, x, y, 6, callbacks=[Assign("end", 3.0, [s.size - 1]), sync])
        assert all((w == 3).all() for w in model.get_weights())
        model.set_weights([np.full_like(w, 2.0) for w in model.get_weights()])
        begun = []
        fit(
            model,
            x,
            y,
            6,
            epochs=1,
            callbacks=[
                sync,
                keras.callbacks.LambdaCallback(
                    on_train_begin=lambda logs: begun.extend(w.copy() for w in model.get_weights())
                ),
            ],
        )
        assert begun and all((w == 2).all() for w in begun)


def test_the_best_weights_are_restored_with_sync():
    with start() as s:
        _, _, x, y = data(s)
        model = make(s.rank)
        model.compile(loss="mse", optimizer=keras.optimizers.SGD(1.5))  # so large a rate increases the loss
        kept = {}

        class Keep(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                kept[logs["val_loss"]] = [w.copy() for w in self.model.get_weights()]

        stop = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
        callbacks = [pleiad.keras.AverageMetrics(), Keep(), stop, pleiad.keras.Sync(clock="sync")]
        fit(model, x, y, 6, epochs=5, validation_data=(x, y), callbacks=callbacks)
        for a, b in zip(model.get_weights(), kept[min(kept)], strict=True):
            assert (a == b).all()
        equal_on_all(s, model)


def test_the_default_sync_converges():
    """Summed changes would make each step too large by a factor of the number of workers."""
    with start() as s:
        _, _, x, _ = data(s)
        y = x @ np.array([[1], [-2], [3]], np.float32)
        keras.utils.set_random_seed(s.rank)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.3))
        before = model.evaluate(x, y, verbose=0)
        fit(model, x, y, 6, epochs=5, callbacks=[pleiad.keras.Sync()])
        after = model.evaluate(x, y, verbose=0)
        assert after < 0.1 * before, (before, after)
        equal_on_all(s, model)


def drifting(s, model, x, y):
    """Trains; after three steps one rank changes a weight of the last layer."""
    fit(model, x[:18], y[:18], 6, epochs=1)
    if s.rank == s.size - 1:
        kernel = model.layers[-1].kernel
        kernel.assign(kernel.value + 1e-6)
    fit(model, x, y, 6, epochs=1)


def test_drifting_weights_are_named():
    with start() as s:
        _, _, x, y = data(s)
        for scaled in (False, True):
            model = make(s.rank)
            optimizer = keras.optimizers.Adam(0.01)
            if scaled:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            model.compile(loss="mse", optimizer=Distributed(optimizer, model=model, check_every=5))
            fit(model, x, y, 6, epochs=2)  # 8 steps on ranks that have not drifted apart
            if s.size == 1:
                continue
            try:
                drifting(s, model, x, y)
            except Exception as problem:
                for text in ("after step 15", f"values of {model.layers[-1].kernel.path}", "1 of 4|2 of 4|4 of 4"):
                    assert re.search(text, str(problem)), f"{text!r} is not in: {problem}"
                assert keras.backend.backend() == "jax" or isinstance(problem, pleiad.StateError)
            else:
                raise AssertionError("no error")
        model = make(s.rank)
        model.compile(loss="mse", optimizer=Distributed(keras.optimizers.SGD(0.1), model=model, check_every=0))
        drifting(s, model, x, y)


def test_bad_input_of_the_wrapper():
    with start() as s:
        with raises(Bad, "expected a Keras optimizer", "str"):
            Distributed("adam")
        with raises(Bad, "already"):
            Distributed(Distributed(keras.optimizers.SGD()))
        with raises(Bad, "loss scaling", "LossScaleOptimizer"):
            keras.optimizers.LossScaleOptimizer(Distributed(keras.optimizers.SGD()))
        with raises(Bad, "check_every", "-1"):
            Distributed(keras.optimizers.SGD(), check_every=-1)
        with raises(Bad, "model: expected a keras.Model"):
            Distributed(keras.optimizers.SGD(), model=3)
        if s.size > 1:
            _, _, x, y = data(s)
            with raises(Bad, 'clock "async"', "sync"):
                fit(make(0), x, y, 6, callbacks=[pleiad.keras.Sync(), Assign("batch", 1.0)])
        s.barrier()


def test_uneven_numbers_of_batches_are_joined():
    with start() as s:
        rng = np.random.default_rng(4)
        steps, size, rate = [2 + 2 * (s.size - rank) for rank in range(s.size)], 4, 0.1
        parts = [rng.standard_normal((count * size, 3)).astype("float32") for count in steps]
        target = np.array([[1.0], [-2.0], [0.5]], "float32")
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        first = model.get_weights()[0]
        model.compile(loss="mse", optimizer=Distributed(keras.optimizers.SGD(rate, momentum=0.9), model=model))
        weights, speed = s.all_gather(first)[0].astype(float), np.zeros((3, 1))
        for _ in range(EPOCHS):
            for i in range(max(steps)):
                batches = [
                    part[i * size : (i + 1) * size] for part, count in zip(parts, steps, strict=True) if i < count
                ]
                gradient = sum(2 / size * x.T @ (x @ weights - x @ target) for x in batches) / s.size
                speed = 0.9 * speed - rate * gradient
                weights = weights + speed
        mine = parts[s.rank]
        joined = [pleiad.keras.Join(), pleiad.keras.AverageMetrics()]
        fit(model, mine, mine @ target, size, callbacks=joined, validation_data=(mine, mine @ target))
        np.testing.assert_allclose(model.get_weights()[0], weights, rtol=1e-4, atol=1e-5)
        equal_on_all(s, model)
        assert int(model.optimizer.iterations) == EPOCHS * max(steps)
        even = mine[: 2 * size]  # the next fit, without uneven batches
        fit(model, even, even @ target, size)
        equal_on_all(s, model)
        plain = make(0)
        plain.compile(loss="mse", optimizer="sgd")
        with raises(Bad, "Join", "DistributedOptimizer", "SGD"):
            fit(plain, *data(s)[:2], size, callbacks=[pleiad.keras.Join()])


if __name__ == "__main__":
    run(globals())

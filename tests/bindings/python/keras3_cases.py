"""pleiad.keras in a world of any size, on the backend that KERAS_BACKEND names."""

import keras
import numpy as np
from cases import raises, run

import pleiad
import pleiad.keras

Bad = pleiad.InvalidArgument
COUNT = 24


def start():
    return pleiad.init(timeout=600, log_level="off")


def make(seed, normalised=False):
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((3,)), keras.layers.Dense(5, activation="tanh")]
    if normalised:
        layers.append(keras.layers.BatchNormalization())
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1))
    return model


def data(s):
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((s.size * COUNT, k)).astype(np.float32) for k in (3, 1))
    mine = slice(s.rank, None, s.size)
    return x, y, x[mine], y[mine]


def equal_on_all(s, model):
    for weight in model.get_weights():
        mine = np.ascontiguousarray(weight, np.float32).reshape(-1)
        assert (s.all_gather(mine) == mine).all()


def test_averaged_weights_after_every_batch_are_training_on_the_joined_batch():
    with start() as s:
        x, y, my_x, my_y = data(s)
        serial, model = make(0), make(s.rank)
        serial.fit(x, y, batch_size=6 * s.size, epochs=3, shuffle=False, verbose=0)
        model.fit(
            my_x,
            my_y,
            batch_size=6,
            epochs=3,
            shuffle=False,
            verbose=0,
            callbacks=[pleiad.keras.Sync(clock="sync", average=True)],
        )
        for a, b in zip(model.get_weights(), serial.get_weights(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        equal_on_all(s, model)


def test_a_callback_made_again_for_the_same_model_reuses_its_table():
    with start() as s:
        _, _, x, y = data(s)
        model = make(s.rank)
        tables = set()
        for _ in range(3):
            sync = pleiad.keras.Sync()
            model.fit(x, y, batch_size=4, epochs=1, verbose=0, callbacks=[sync])
            equal_on_all(s, model)
            tables.add(sync.table.id)
        assert len(tables) == 1
        other = pleiad.keras.Sync(average=False)
        model.fit(x, y, batch_size=4, epochs=1, verbose=0, callbacks=[other])
        assert other.table.id not in tables  # a different update rule needs a new table
        again = make(s.rank)
        sync = pleiad.keras.Sync()
        again.fit(x, y, batch_size=4, epochs=1, verbose=0, callbacks=[sync])
        assert sync.table.id not in tables
        # After set_weights, the table restarts from the master's new weights.
        model.set_weights([np.full_like(w, 1 + s.rank) for w in model.get_weights()])
        sync = pleiad.keras.Sync(freq=1000)
        sync.set_model(model)
        sync.on_train_begin()
        assert sync.table.id in tables and all((w == 1).all() for w in model.get_weights())
        sync.close()
        s.barrier()


def test_asynchronous_training_ends_with_the_same_weights():
    with start() as s:
        _, _, x, y = data(s)
        model = make(s.rank, normalised=True)
        sync = pleiad.keras.Sync(freq=2)
        before = model.evaluate(x, y, verbose=0)
        for _ in range(2):  # a second fit continues
            model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[sync])
            equal_on_all(s, model)
        assert np.isfinite(model.evaluate(x, y, verbose=0)) and np.isfinite(before)
        assert sync.table.stats["adds"] == 2 * (2 * 6 // 2 + 1)


def test_bad_input():
    with raises(pleiad.StateError, r"pleiad\.init\(\)"):
        pleiad.keras.Sync()
    with start() as s:
        with raises(Bad, 'unknown clock "ssp"', "async, sync"):
            pleiad.keras.Sync(clock="ssp")
        with raises(Bad, "freq"):
            pleiad.keras.Sync(freq=0)
        _, _, x, y = data(s)
        sync = pleiad.keras.Sync()
        make(0).fit(x, y, verbose=0, callbacks=[sync])
        with raises(Bad, "use a new Sync"):
            make(0).fit(x, y, verbose=0, callbacks=[sync])
        if s.size > 1:
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2 if s.rank == 1 else 1)])
            model.compile(loss="mse", optimizer="sgd")
            with raises(Bad, "same model", r"\(3, 1\)", r"\(3, 2\)"):
                model.fit(x, y, verbose=0, callbacks=[pleiad.keras.Sync()])


if __name__ == "__main__":
    run(globals())

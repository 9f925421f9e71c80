"""pleiad.nn: what an epoch is: its last batch, the next fit, and what a stopped run continues with.

FOLDER is one that all ranks see.
"""

import os
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

FOLDER = Path(os.environ["FOLDER"])
RNG = np.random.default_rng(8)
X = RNG.normal(size=(100, 5))
Y = (X @ RNG.normal(size=(5, 3))).argmax(axis=1).astype("int32")


def quiet():
    return pleiad.init(timeout=600, log_level="off")


def linear(dtype="float64"):
    return nn.Sequential([nn.Dense(3, name="y")], input=(5,), loss=nn.SoftmaxLoss(), dtype=dtype, seed=4)


def normed():
    layers = [nn.Dense(6, name="hidden"), nn.BatchNorm(name="norm"), nn.Activation("relu"), nn.Dense(3, name="y")]
    return nn.Sequential(layers, input=(5,), loss=nn.SoftmaxLoss(), dtype="float64", seed=4)


def trained_by_numpy(count, batch, epochs, rate):
    """Gradient descent on the mean softmax loss of each batch. Returns weight, bias and the mean loss of each epoch."""
    start = linear()
    weight, bias = (start.parameters[f"y/{name}"].copy() for name in ("weight", "bias"))
    losses = []
    for _ in range(epochs):
        total = 0.0
        for first in range(0, count, batch):
            x, y = X[first : min(first + batch, count)], Y[first : min(first + batch, count)]
            scores = x @ weight.T + bias
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            total -= np.log(p[np.arange(len(x)), y]).sum()
            p[np.arange(len(x)), y] -= 1
            weight, bias = weight - rate * p.T @ x / len(x), bias - rate * p.sum(axis=0) / len(x)
        losses.append(total / count)
    return weight, bias, losses


def test_the_incomplete_last_batch_of_an_epoch_is_trained():
    with quiet():
        for count, batch, steps in ((100, 64, 2), (65, 64, 2), (64, 64, 1), (10, 64, 1), (9, 4, 3)):
            net = linear()
            trainer = nn.Trainer(net, nn.SGD(0.3), batch=batch)
            history = trainer.fit(X[:count], Y[:count], epochs=3, shuffle=False, progress=False)
            assert trainer.step_number == 3 * steps
            weight, bias, losses = trained_by_numpy(count, batch, 3, 0.3)
            np.testing.assert_allclose(net.parameters["y/weight"], weight, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(net.parameters["y/bias"], bias, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(history["loss"], losses, rtol=1e-11)


def test_ranks_train_an_incomplete_batch_as_one_process_does():
    with quiet() as session:
        for exchange in ("all_reduce", "tables"):
            for count in (100, 65, 31):  # with 65, all ranks but the last have no sample of the second batch
                one, together = normed(), normed()
                alone = nn.Trainer(one, nn.Adam(0.02), batch=64, exchange="none")
                ranks = nn.Trainer(together, nn.Adam(0.02), batch=64, exchange=exchange)
                mine = alone.fit(X[:count], Y[:count], epochs=3, progress=False)
                ours = ranks.fit(X[:count], Y[:count], epochs=3, progress=False)
                np.testing.assert_allclose(ours["loss"], mine["loss"], rtol=1e-9)
                np.testing.assert_allclose(ours["accuracy"], mine["accuracy"], rtol=1e-9)
                for name, value in one.state_dict().items():
                    np.testing.assert_allclose(together.state_dict()[name], value, rtol=1e-7, atol=1e-9)
        split = dict(batch=64, plan="hybrid", split=["hidden"])
        trainer = nn.Trainer(normed_less(), nn.SGD(0.1), **split)
        alone = nn.Trainer(normed_less(), nn.SGD(0.1), batch=64, exchange="none")
        expected = alone.fit(X, Y, epochs=2, progress=False)  # 36 samples in the last batch
        np.testing.assert_allclose(trainer.fit(X, Y, epochs=2, progress=False)["loss"], expected["loss"], rtol=1e-9)
        if session.size > 1:
            words = ("last batch of 1 samples", "not divisible", "drop_last")
            with cases.raises(pleiad.InvalidArgument, *words):
                trainer.fit(X[:65], Y[:65], progress=False)
        trainer.fit(X[:65], Y[:65], drop_last=True, progress=False)


def normed_less():
    layers = [nn.Dense(8, "tanh", name="hidden"), nn.Dense(3, name="y")]
    return nn.Sequential(layers, input=(5,), loss=nn.SoftmaxLoss(), dtype="float64", seed=4)


def test_drop_last_makes_complete_batches_only():
    with quiet():
        one, other = linear(), linear()
        trainer = nn.Trainer(one, nn.SGD(0.3), batch=64)
        trainer.fit(X, Y, epochs=3, drop_last=True, shuffle=False, progress=False)
        assert trainer.step_number == 3
        expected = nn.Trainer(other, nn.SGD(0.3), batch=64)
        order = np.arange(192) % 100  # an epoch begins with what the previous one has left
        expected.fit(X[order], Y[order], epochs=1, shuffle=False, progress=False)
        for name, value in other.parameters.items():
            np.testing.assert_array_equal(one.parameters[name], value)


def test_stores_end_an_epoch_as_arrays_do():
    with quiet() as session:
        values = RNG.integers(0, 256, (50, 5), dtype="uint8")
        path = FOLDER / f"rows-{session.size}.bin"
        if session.rank == 0:
            nn.write_store("kvfile", path, data=values, labels=Y[:50])
        session.barrier()
        ours, theirs = linear("float32"), linear("float32")
        for count, batch in ((50, 16), (50, 49)):
            samples = nn.StoreSamples(nn.open_store("kvfile", path, classes=3), scale=1 / 64, shuffle=False)
            mine = nn.Trainer(ours, nn.SGD(0.1), batch=batch)
            got = mine.fit(samples, epochs=3, validation=samples, progress=False)
            other = nn.Trainer(theirs, nn.SGD(0.1), batch=batch)
            arrays = (values.astype("float32") * np.float32(1 / 64), Y[:50])
            expected = other.fit(*arrays, epochs=3, shuffle=False, validation=arrays, progress=False)
            assert mine.step_number == other.step_number == 3 * -(-count // batch)
            np.testing.assert_allclose(got["loss"], expected["loss"], rtol=1e-6)
            np.testing.assert_allclose(got["val_loss"], expected["val_loss"], rtol=1e-6)


def test_a_run_stopped_at_any_step_resumes_bit_identically():
    with quiet() as session:
        whole = nn.Trainer(normed(), nn.Adam(0.01), batch=30)  # batches of 30, 30, 30 and 10
        expected = whole.fit(X, Y, epochs=3, log_every=1, progress=False)["loss"]
        for stop in (1, 3, 4, 7):
            place = FOLDER / f"incomplete-{session.size}-{stop}"
            first = nn.Trainer(normed(), nn.Adam(0.01), batch=30, checkpoint=place)
            end = [lambda record, stop=stop: record.step < stop]
            losses = first.fit(X, Y, epochs=3, log_every=1, callbacks=end, progress=False)["loss"]
            other = nn.Trainer(normed(), nn.Adam(0.01), batch=30, checkpoint=place)
            assert other.resume() and other.step_number == stop
            history = other.fit(X, Y, epochs=3, log_every=1, progress=False)
            assert losses + history["loss"] == expected and history.records[0].epoch == stop // 4 + 1
            for name, value in whole.net.state_dict().items():
                np.testing.assert_array_equal(other.net.state_dict()[name], value)


def test_rows_that_continue_need_complete_batches():
    with quiet():
        data = nn.Text("abcabd" * 20, steps=6)  # 19 pieces
        assert len(data) == 19
        net = nn.Net(seed=4)
        piece = nn.CharRNN()(net.input((7,), "x", "int32"))
        hidden = nn.GRU(4, carry=True)(nn.OneHot(4)(piece))
        nn.SoftmaxLoss(name="loss")(nn.Dense(4, last_axis=True)(hidden), piece[1])
        trainer = nn.Trainer(net, nn.SGD(0.1), batch=4)
        trainer.fit(data, epochs=1, progress=False)
        assert trainer.step_number == 4
        with cases.raises(pleiad.InvalidArgument, "carries state", "drop_last"):
            trainer.fit(np.zeros((6, 7), "int32"), progress=False)
        trainer.fit(np.zeros((6, 7), "int32"), drop_last=True, progress=False)
        assert trainer.step_number == 5


def test_a_second_fit_continues_the_epochs_and_returns_its_own_history():
    with quiet():
        trainer, once = nn.Trainer(linear(), nn.SGD(0.3), batch=30), nn.Trainer(linear(), nn.SGD(0.3), batch=30)
        first = trainer.fit(X, Y, epochs=2, progress=False)
        second = trainer.fit(X, Y, epochs=3, progress=False)
        assert [record.epoch for record in first] == [1, 2] and [record.epoch for record in second] == [3, 4, 5]
        assert [record.step for record in second] == [12, 16, 20]
        assert trainer.history["loss"] == first["loss"] + second["loss"]
        expected = once.fit(X, Y, epochs=5, progress=False)  # every epoch has an order of its own
        np.testing.assert_allclose(trainer.history["loss"], expected["loss"], rtol=1e-12)
        for name, value in once.net.parameters.items():
            np.testing.assert_array_equal(trainer.net.parameters[name], value)
        stop = [lambda record: False]
        assert [
            record.epoch for record in trainer.fit(X, Y, epochs=9, callbacks=stop, log_every=1, progress=False)
        ] == [6]
        assert trainer.step_number == 21
        assert [record.step for record in trainer.fit(X, Y, epochs=1, progress=False)] == [25]  # a pass of its own


def test_early_stopping_without_validation_data_is_an_error_before_training():
    with quiet():
        trainer = nn.Trainer(linear(), batch=30)
        words = (
            "EarlyStopping",
            'monitor "val_loss"',
            "needs validation data",
            r"fit\(validation=None\)",
            'monitor="loss"',
        )
        with cases.raises(pleiad.InvalidArgument, *words):
            trainer.fit(X, Y, callbacks=[nn.EarlyStopping()], progress=False)
        assert trainer.step_number == 0
        trainer.fit(X, Y, callbacks=[nn.EarlyStopping("loss")], progress=False)
        assert trainer.step_number == 4


if __name__ == "__main__":
    cases.run(dict(globals()))

"""pleiad.nn: generators, tables and iterables as input, sample and class weights, and the best checkpoint.

FOLDER is one that all ranks see.
"""

import os
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

FOLDER = Path(os.environ["FOLDER"])
RNG = np.random.default_rng(12)
X = RNG.normal(size=(100, 5))
Y = (X @ RNG.normal(size=(5, 3))).argmax(axis=1).astype("int32")
W = RNG.uniform(0.2, 3, size=100)


def quiet():
    return pleiad.init(timeout=600, log_level="off")


def linear(loss=None):
    return nn.Sequential([nn.Dense(3, name="y")], input=(5,), loss=loss or nn.SoftmaxLoss(), dtype="float64", seed=4)


def trained(*data, batch=32, epochs=2, **more):
    """Returns the history and the parameters of a training in order."""
    trainer = nn.Trainer(linear(), nn.Adam(0.05), batch=batch)
    history = trainer.fit(*data, epochs=epochs, shuffle=False, progress=False, **more)
    return history["loss"], trainer.net.state_dict(), trainer


def same(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
    for name, value in one[1].items():
        np.testing.assert_allclose(other[1][name], value, rtol=1e-12, atol=1e-14)


class Rows:
    """As a dataset of PyTorch."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index], Y[index]


class Columns:
    """As a dataset of Hugging Face."""

    column_names = ("x", "label", "text")

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(X)

    def __getitem__(self, indices):
        return {name: [column[index] for index in indices] for name, column in self.columns.items()}


class Loader:
    """As a DataLoader: an iterable of batches that can be read again."""

    def __init__(self, sizes):
        self.ends = np.cumsum(sizes)

    def __iter__(self):
        for parts in np.split(np.arange(100), self.ends):
            if len(parts):
                yield [X[parts], Y[parts]]


def generator():
    for first in range(0, 100, 15):
        yield {"x": X[first : first + 15], "label": Y[first : first + 15], "name": "not an input"}


def test_tables_and_iterables_train_as_their_arrays_do():
    with quiet():
        expected = trained(X, Y)
        columns = Columns(x=X.tolist(), label=Y.tolist(), text=["a"] * 100)
        for data in (Rows(), columns, Loader([7, 40, 3]), generator):
            found = trained(data)
            same(found, expected)
            assert found[2].step_number == 8
            mine, theirs = found[2].evaluate(data), expected[2].evaluate(X, Y)
            assert np.isclose(mine["loss"], theirs["loss"], rtol=1e-12) and mine["accuracy"] == theirs["accuracy"]
        same(trained(generator(), epochs=1), trained(X, Y, epochs=1))  # a generator is read once
        same(trained(Loader([50]), drop_last=True), trained(X, Y, drop_last=True))
        same(trained(generator, steps_per_epoch=3, epochs=3), trained(X, Y, steps_per_epoch=3, epochs=3))
        history = trained(X, Y, validation=Loader([50]))[2].history
        np.testing.assert_allclose(history["val_loss"], trained(X, Y, validation=(X, Y))[2].history["val_loss"])
        assert history.records[-1].phase == "validate"


def test_a_table_is_shuffled_by_epoch_and_resumes():
    with quiet() as session:
        place = FOLDER / f"table-{session.size}"

        def trainer(**more):
            return nn.Trainer(linear(), nn.Adam(0.05), batch=32, **more)

        whole = trainer()
        each = dict(log_every=1, progress=False)
        expected = whole.fit(Rows(), epochs=3, **each)["loss"]
        first = trainer(checkpoint=place)
        losses = first.fit(Rows(), epochs=1, **each)["loss"]
        other = trainer(checkpoint=place)
        assert other.resume()
        assert losses + other.fit(Rows(), epochs=3, **each)["loss"] == expected
        assert expected != trainer().fit(Rows(), epochs=3, seed=2, **each)["loss"]


def test_wrong_data_is_named():
    with quiet() as session:
        trainer = nn.Trainer(linear(), batch=32)
        bad = pleiad.InvalidArgument
        with cases.raises(
            bad, "read in each of 2 epochs", "generator", "a function that returns it", "steps_per_epoch"
        ):
            trainer.fit(generator(), epochs=2, progress=False)
        wrong = Columns(x=X)
        wrong.column_names = ("x", "labels", "text")
        with cases.raises(bad, "Columns", "missing: label", "its columns: x, labels, text", "rename_column"):
            trainer.fit(wrong)
        with cases.raises(bad, r"expected a dict by input, \(x, y\)", "received 1 value"):
            trainer.fit(lambda: [[X]], progress=False)
        with cases.raises(bad, "missing: label", "received: x"):
            trainer.fit(lambda: [{"x": X}], progress=False)
        with cases.raises(bad, "at least one batch"):
            trainer.fit(lambda: [], progress=False)
        with cases.raises(bad, "y: expected None", "Rows contains the targets"):
            trainer.fit(Rows(), Y)
        with cases.raises(bad, "same number of samples", "'x': 100", "'label': 9"):
            trainer.fit(lambda: [(X, Y[:9])], progress=False)
        with cases.raises(pleiad.StateError, "ended before the steps_per_epoch"):
            trainer.fit(generator(), steps_per_epoch=5, progress=False)
        if session.size > 1:
            shuffled = np.random.default_rng(session.rank).permutation(100)
            with cases.raises(bad, "expected the same samples on every rank", "the same seed"):
                trainer.fit(lambda: [(X[shuffled], Y[shuffled])], progress=False)
        resumed = nn.Trainer(linear(), batch=32, checkpoint=FOLDER / f"stream-{session.size}")
        resumed.fit(generator, progress=False)
        assert resumed.resume()
        with cases.raises(bad, "steps_per_epoch", "resumed"):
            resumed.fit(generator, epochs=2, progress=False)
        resumed.fit(generator, epochs=2, steps_per_epoch=4, progress=False)
        assert resumed.step_number == 8


def softmax(scores):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def test_sample_and_class_weights_multiply_the_loss_of_each_sample():
    classes = {0: 2.0, 2: 0.5}
    by_class = np.array([2.0, 1.0, 0.5])[Y]
    with quiet():
        for given, factors in (
            ({"sample_weight": W}, W),
            ({"class_weight": classes}, by_class),
            ({"sample_weight": W, "class_weight": classes}, W * by_class),
        ):
            start = linear()
            weight, bias = (start.parameters[f"y/{name}"].copy() for name in ("weight", "bias"))
            losses = []
            for _ in range(2):
                total = 0.0
                for first in range(0, 100, 32):
                    part = slice(first, min(first + 32, 100))
                    x, y, w = X[part], Y[part], factors[part]
                    p = softmax(x @ weight.T + bias)
                    total -= (w * np.log(p[np.arange(len(x)), y])).sum()
                    p[np.arange(len(x)), y] -= 1
                    p *= w[:, None] / len(x)
                    weight, bias = weight - 0.3 * p.T @ x, bias - 0.3 * p.sum(axis=0)
                losses.append(total / 100)
            trainer = nn.Trainer(linear(), nn.SGD(0.3), batch=32)
            history = trainer.fit(X, Y, epochs=2, shuffle=False, progress=False, **given)
            np.testing.assert_allclose(history["loss"], losses, rtol=1e-11)
            np.testing.assert_allclose(trainer.net.parameters["y/weight"], weight, rtol=1e-10)
            np.testing.assert_allclose(trainer.net.parameters["y/bias"], bias, rtol=1e-10, atol=1e-13)
        own = -np.log(softmax(X @ weight.T + bias)[np.arange(100), Y])
        assert np.isclose(trainer.evaluate(X, Y, sample_weight=W)["loss"], (W * own).mean(), rtol=1e-9)
        assert np.isclose(trainer.evaluate(X, Y)["loss"], own.mean(), rtol=1e-9)
        weighted = trained(X, Y, sample_weight=W, class_weight=classes)
        items = [(X[:60], Y[:60], W[:60]), (X[60:], Y[60:], W[60:])]
        same(trained(lambda: items, class_weight=classes), weighted)

        class Weighted(Rows):
            def __getitem__(self, index):
                return X[index], Y[index], W[index]

        same(trained(Weighted(), class_weight=classes), weighted)
        shuffled = [nn.Trainer(linear(), nn.SGD(0.3), batch=32).fit(X, Y, sample_weight=w, progress=False)["loss"] for w in (None, np.ones(100))]  # fmt: skip
        np.testing.assert_allclose(shuffled[0], shuffled[1], rtol=1e-12)


def test_every_loss_takes_weights_and_others_are_refused():
    with quiet() as session:
        n, share = 12, slice(12 // session.size * session.rank, 12 // session.size * (session.rank + 1))
        t = RNG.random((n, 3))
        for loss, of in (
            (nn.EuclideanLoss(), lambda s: ((s - t) ** 2).sum(axis=1) / 2),
            (nn.SigmoidLoss(), lambda s: (np.log1p(np.exp(s)) - t * s).sum(axis=1)),
        ):
            net = linear(loss)
            trainer = nn.Trainer(net, nn.SGD(0.1), batch=n, fuse=False)
            before = net.state_dict()
            trainer.step(X[:n][share], t[share], sample_weight=W[:n][share])
            moved = net.parameters["y/bias"].copy()
            for k in range(3):  # a central difference of the weighted loss
                values = []
                for sign in (1, -1):
                    scores = X[:n] @ before["y/weight"].T + before["y/bias"]
                    scores[:, k] += sign * 1e-5
                    values.append((W[:n] * of(scores)).mean())
                gradient = (values[0] - values[1]) / 2e-5
                assert np.isclose((before["y/bias"][k] - moved[k]) / 0.1, gradient, rtol=1e-6)
        machine = nn.Sequential([nn.RBM(4)], input=(5,))
        with cases.raises(pleiad.InvalidArgument, "rbm", "takes no sample weights"):
            nn.Trainer(machine, batch=12).fit(np.abs(X), sample_weight=W, progress=False)
        trainer = nn.Trainer(linear(), batch=32)
        with cases.raises(pleiad.InvalidArgument, r"sample_weight: expected shape \(100,\)", r"received \(3,\)"):
            trainer.fit(X, Y, sample_weight=W[:3])
        with cases.raises(pleiad.InvalidArgument, "sample_weight: expected finite factors", "received -1"):
            trainer.fit(X, Y, sample_weight=np.full(100, -1.0))
        with cases.raises(pleiad.InvalidArgument, "class_weight", "integer labels", "target"):
            nn.Trainer(linear(nn.EuclideanLoss()), batch=32).fit(X, t[:1].repeat(100, 0), class_weight={0: 1})
        with cases.raises(pleiad.InvalidArgument, "class_weight: expected a dict", "list"):
            trainer.fit(X, Y, class_weight=[1, 2, 3])


def test_the_best_state_is_kept_on_disk():
    with quiet() as session:
        place = FOLDER / f"best-{session.size}"
        rates = nn.schedules.fixed_step([0, 8, 12], [0.2, 30.0, 1e-9])  # the third epoch spoils the net
        trainer = nn.Trainer(linear(), nn.SGD(), batch=32, schedule=rates)
        best = nn.KeepBest(place, "val_loss")
        history = trainer.fit(X, Y, epochs=5, validation=(X, Y), callbacks=[best], progress=False)
        losses = history["val_loss"]
        assert best.best == min(losses) == losses[1] and best.best_step == 8
        session.barrier()
        kept = nn.Trainer(nn.load_net(place), batch=32, exchange="none")
        assert np.isclose(kept.evaluate(X, Y)["loss"], min(losses), rtol=1e-12)
        again = nn.KeepBest(place, "val_loss")
        trainer.fit(X, Y, epochs=1, validation=(X, Y), callbacks=[again], progress=False)
        assert again.best_step == 8 and again.best == best.best  # a later, worse state does not replace it
        with cases.raises(pleiad.InvalidArgument, "KeepBest", "needs validation data"):
            trainer.fit(X, Y, callbacks=[nn.KeepBest(place)], progress=False)


if __name__ == "__main__":
    cases.run(dict(globals()))

"""pleiad.nn: layers, losses and metrics written in Python, and copies of nets, on any number of ranks.

FOLDER is one that all ranks see.
"""

import copy
import os
import pickle
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

FOLDER = Path(os.environ["FOLDER"])
RNG = np.random.default_rng(13)
X = RNG.normal(size=(50, 4))
T = RNG.normal(size=(50, 2))
Y = (X[:, 0] > 0).astype("int32")
W = RNG.uniform(0.5, 2, size=50)


def quiet():
    return pleiad.init(timeout=600, log_level="off")


class Scale(nn.OwnLayer):
    kind = "scale"

    def parameters(self, shapes):
        return [nn.OwnParam("factor", shapes[0][1:], init=nn.init.constant(1.5))]

    def forward(self, x, parameters, y, training, step):
        y[...] = x[0] * parameters[0]

    def backward(self, x, parameters, y, dy, dx, gradients, step):
        if dx[0] is not None:
            dx[0][...] = dy * parameters[0]
        gradients[0][...] = (dy * x[0]).sum(axis=0)


class Half(nn.OwnLoss):
    """nn.EuclideanLoss in Python."""

    def losses(self, scores, target):
        return ((scores - target) ** 2).sum(axis=1) / 2

    def gradient(self, scores, target):
        return scores - target


class Logistic(nn.OwnLoss):
    target = "label"

    def losses(self, scores, target):
        return np.log1p(np.exp(-scores[:, 0] * (2 * target - 1)))

    def gradient(self, scores, target):
        sign = 2 * target[:, None] - 1
        return -sign / (1 + np.exp(scores * sign))


class Correct(nn.OwnMetric):
    def values(self, scores, target):
        return (scores[:, 0] > 0) == target


def net_of(loss, units=2):
    layers = [nn.Dense(6, "tanh", name="hidden"), Scale(), nn.Dense(units, name="y")]
    return nn.Sequential(layers, input=(4,), loss=loss, dtype="float64", seed=3)


def test_an_own_loss_and_layer_train_exactly_on_any_number_of_ranks():
    with quiet():
        assert net_of(Half()).parameters["scale1/factor"].tolist() == [1.5] * 6
        for more in ({}, {"sample_weight": W}):
            runs = []
            for loss, exchange in ((Half(), "auto"), (nn.EuclideanLoss(), "none")):
                trainer = nn.Trainer(net_of(loss), nn.Adam(0.02), batch=16, exchange=exchange)
                history = trainer.fit(X, T, epochs=3, progress=False, **more)
                runs.append((history["loss"], trainer.net.state_dict(), trainer.evaluate(X, T)["loss"]))
            np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-9)
            np.testing.assert_allclose(runs[0][2], runs[1][2], rtol=1e-9)
            for name, value in runs[1][1].items():
                np.testing.assert_allclose(runs[0][1][name], value, rtol=1e-7, atol=1e-10)
        # The gradient of the factor is that of finite differences.
        net = net_of(Half())
        feed = {"x": X[:9], "target": T[:9]}
        net.forward(feed, phase="train")
        net.backward()
        found = net.gradients["scale1/factor"].copy()
        for k in range(6):
            losses = []
            for step in (1e-5, -1e-5):
                net.parameters["scale1/factor"][k] += step
                losses.append(net.forward(feed, phase="train")["loss"])
                net.parameters["scale1/factor"][k] -= step
            assert np.isclose(found[k], (losses[0] - losses[1]) / 2e-5, rtol=1e-6)


def test_an_own_metric_is_the_mean_over_all_samples():
    with quiet():
        net = net_of(Logistic(name="cost"), units=1)
        assert net.inputs["label"] == "int32" and net.predictions == ["y"]
        net.add(Correct(name="correct"), "y", "label", phases=["validate", "test"])
        trainer = nn.Trainer(net, nn.Adam(0.05), batch=16)
        history = trainer.fit(X, Y, epochs=8, validation=(X, Y), progress=False)
        assert history["cost/loss"][-1] < history["cost/loss"][0]
        found = trainer.evaluate(X, Y)
        scores = trainer.predict(X)[:, 0]
        assert np.isclose(found["correct/value"], ((scores > 0) == Y).mean())
        assert np.isclose(found["cost/loss"], np.log1p(np.exp(-scores * (2 * Y - 1))).mean(), rtol=1e-9)
        assert history["val_correct/value"][-1] == found["correct/value"] > 0.8


def test_mistakes_in_own_layers_are_named():
    class Short(Half):
        def losses(self, scores, target):
            return scores[:-1, 0]

    class Flat(Half):
        def gradient(self, scores, target):
            return scores[:, 0]

    with quiet():
        with cases.raises(pleiad.InvalidArgument, "Short.losses", r"each of \d+ samples", "returned shape"):
            nn.Trainer(net_of(Short()), batch=16).fit(X, T, progress=False)
        with cases.raises(pleiad.InvalidArgument, "Flat.gradient", "the shape of the scores", "returned shape"):
            nn.Trainer(net_of(Flat()), batch=16).fit(X, T, progress=False)
    net = nn.Net()
    x = net.input((3,))
    with cases.raises(pleiad.InvalidArgument, "expected scores and targets", "received 1"):
        Half()(x)
    with cases.raises(pleiad.InvalidArgument, "unknown initialiser", "gausian"):

        class Wrong(Scale):
            def parameters(self, shapes):
                return [nn.OwnParam("factor", shapes[0][1:], init="gausian")]

        Wrong()(x)  # fmt: skip
    with cases.raises(pleiad.InvalidArgument, "scale: expected values of a net", "str"):
        Scale()("x")


def test_a_checkpoint_of_own_layers_resumes():
    with quiet() as session:
        place = FOLDER / f"own-{session.size}"
        whole = nn.Trainer(net_of(Half()), nn.Adam(0.02), batch=16)
        expected = whole.fit(X, T, epochs=4, log_every=1, progress=False)["loss"]
        nn.Trainer(net_of(Half()), nn.Adam(0.02), batch=16, checkpoint=place).fit(X, T, epochs=2, progress=False)
        other = nn.Trainer(net_of(Half()), nn.Adam(0.02), batch=16, checkpoint=place)
        assert other.resume()
        assert other.fit(X, T, epochs=4, log_every=1, progress=False)["loss"] == expected[8:]


def test_nets_are_copied_with_their_values():
    with quiet():
        net = net_of(Half())
        net.add(nn.Argsort(1), "y", name="best", phases=["test"])
        net.fix("hidden")
        nn.Trainer(net, nn.SGD(0.1), batch=16).fit(X, T, progress=False)
        for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert again.text() == net.text() and again.inputs == net.inputs and again.layers == net.layers
            assert again.fixed == net.fixed == ["hidden/weight", "hidden/bias"]
            assert again.predictions == net.predictions and again.targets == net.targets
            for name, value in net.state_dict().items():
                np.testing.assert_array_equal(again.parameters[name], value)
            assert again.forward(x=X, target=T) == net.forward(x=X, target=T)
            again.parameters["y/bias"][:] = 7  # memory of its own
            assert (net.parameters["y/bias"] != 7).all()
            nn.Trainer(again, nn.SGD(0.1), batch=16).fit(X, T, progress=False)
        layer = nn.Dense(4, "relu", weight=nn.init.gaussian(std=0.1))
        assert repr(copy.deepcopy(layer)) == repr(pickle.loads(pickle.dumps(layer))) == repr(layer)
        images = nn.Sequential(
            [nn.Convolution(2, 3), nn.BatchNorm(), nn.Dense(2)], input=(6, 6, 1), loss=nn.SoftmaxLoss()
        )
        images.states["batch_norm1/mean"][:] = 3
        assert (copy.deepcopy(images).states["batch_norm1/mean"] == 3).all()


if __name__ == "__main__":
    cases.run(dict(globals()))

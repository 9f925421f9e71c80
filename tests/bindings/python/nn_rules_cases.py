"""pleiad.nn: AdamW, clipping by norm and schedules, compared with their formulas in NumPy, on any number of ranks.

FOLDER is one that all ranks see.
"""

import copy
import math
import os
import pickle
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

FOLDER = Path(os.environ["FOLDER"])
RNG = np.random.default_rng(9)
X = RNG.normal(size=(60, 5))
T = X @ RNG.normal(size=(5, 3)) + 0.1 * RNG.normal(size=(60, 3))


def quiet():
    return pleiad.init(timeout=600, log_level="off")


def linear(**more):
    layers = [nn.Dense(3, name="y", **more)]
    return nn.Sequential(layers, input=(5,), loss=nn.EuclideanLoss(), dtype="float64", seed=4)


def gradients(weight, bias, x, t):
    error = (x @ weight.T + bias - t) / len(x)
    return error.T @ x, error.sum(axis=0)


def descend(update, epochs=2, batch=20):
    """Descends in NumPy by update(step, values, gradients), from the values of linear()."""
    net = linear()
    values = [net.parameters[f"y/{name}"].copy() for name in ("weight", "bias")]
    step = 0
    for _ in range(epochs):
        for first in range(0, len(X), batch):
            values = update(step, values, gradients(*values, X[first : first + batch], T[first : first + batch]))
            step += 1
    return values


def expect(trainer, values, epochs=2):
    trainer.fit(X, T, epochs=epochs, shuffle=False, progress=False)
    for name, value in zip(("weight", "bias"), values, strict=True):
        np.testing.assert_allclose(trainer.net.parameters[f"y/{name}"], value, rtol=1e-10, atol=1e-13)


def test_adamw_decays_apart_from_the_gradient():
    state = [[0.0, 0.0], [0.0, 0.0]]

    def update(step, values, found):
        t, out = step + 1, []
        for k, (value, g) in enumerate(zip(values, found, strict=True)):
            m, v = state[k]
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            state[k] = [m, v]
            moved = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            out.append(value - 0.05 * 0.3 * value - 0.05 * moved)
        return out

    with quiet():
        expected = descend(update)
        for exchange in ("auto", "tables"):
            expect(nn.Trainer(linear(), nn.AdamW(0.05, weight_decay=0.3), batch=20, exchange=exchange), expected)
        assert repr(nn.AdamW()).startswith("Updater('adamw', learning_rate=0.001")


def clipped(limit, found):
    norm = math.sqrt(sum((g * g).sum() for g in found))
    return [g * min(1.0, limit / norm) for g in found], norm


def test_gradients_are_clipped_by_their_norm_over_all_parameters_and_ranks():
    norms, limit = [], 2.0

    def update(step, values, found):
        found, norm = clipped(limit, found)
        norms.append(norm)
        return [value - 0.1 * g for value, g in zip(values, found, strict=True)]

    with quiet() as session:
        expected = descend(update, epochs=6)
        assert min(norms) < limit < max(norms), norms  # some steps are clipped, others are not
        expect(nn.Trainer(linear(), nn.SGD(0.1), batch=20, clip_norm=limit), expected, epochs=6)
        expect(nn.Trainer(linear(), nn.SGD(0.1), batch=20, clip_norm=limit, exchange="none"), expected, epochs=6)
        if session.size > 1:
            with cases.raises(pleiad.InvalidArgument, "clip_norm", "all_reduce", "tables"):
                nn.Trainer(linear(), batch=20, clip_norm=1, exchange="tables")
        with cases.raises(pleiad.InvalidArgument, "clip_norm", "received -1"):
            nn.Trainer(linear(), batch=20, clip_norm=-1)
        deep = [
            nn.Sequential(
                [nn.Dense(8, "tanh", name="hidden"), nn.Dense(3, name="y")],
                input=(5,), loss=nn.EuclideanLoss(), dtype="float64", seed=4,
            )
            for _ in range(2)
        ]  # fmt: skip
        alone = nn.Trainer(deep[0], nn.SGD(0.1), batch=20, clip_norm=0.5, exchange="none")
        split = nn.Trainer(deep[1], nn.SGD(0.1), batch=20, clip_norm=0.5, plan="hybrid", split=["hidden"])
        losses = [t.fit(X, T, epochs=3, log_every=1, progress=False)["loss"] for t in (alone, split)]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)


def test_the_rate_of_every_step_follows_the_schedule():
    with quiet():
        cosine = nn.schedules.cosine(0.2, steps=4, final=0.02)
        warm = nn.schedules.warmup(cosine, steps=2, start=0.01)
        shape = [0.02 + 0.18 * (1 + math.cos(math.pi * min(k / 4, 1))) / 2 for k in range(6)]
        np.testing.assert_allclose([cosine(k) for k in range(6)], shape, rtol=1e-15)
        np.testing.assert_allclose([warm(k) for k in range(8)], [0.01, 0.105, *shape], rtol=1e-15)

        def falling(step):
            return 0.3 / (1 + step)

        for schedule in (cosine, warm, falling):
            expected = descend(
                lambda step, values, found, s=schedule: [v - s(step) * g for v, g in zip(values, found, strict=True)]
            )
            trainer = nn.Trainer(linear(), nn.SGD(9.0), batch=20, schedule=schedule)
            expect(trainer, expected)
            assert trainer.learning_rate == schedule(6)
        velocity = [0.0, 0.0]

        def update(step, values, found):
            velocity[:] = [0.1 * step * v + g for v, g in zip(velocity, found, strict=True)]
            return [value - 0.1 * v for value, v in zip(values, velocity, strict=True)]

        expected = descend(update)
        expect(nn.Trainer(linear(), nn.SGD(0.1, momentum=0.5), batch=20, momentum=lambda step: 0.1 * step), expected)
        assert nn.Trainer(linear(), nn.SGD(0.25), batch=20).learning_rate == 0.25
        with cases.raises(pleiad.InvalidArgument, "schedule", "at step 2", "received nan"):
            bad = nn.Trainer(linear(), batch=20, schedule=lambda step: math.nan if step == 2 else 0.1)
            bad.fit(X, T, progress=False)
        with cases.raises(pleiad.InvalidArgument, "schedule", "function of the step", "received 3"):
            nn.Trainer(linear(), batch=20, schedule=3)


def test_a_plateau_lowers_the_rate_and_resumes():
    with quiet() as session:
        plateau = nn.schedules.plateau(0.4, "loss", factor=0.5, patience=2, min_delta=0.001, least=0.06)
        state, seen = plateau.first_state(), []
        for loss in (1.0, 0.9, 0.8995, 0.95, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7):
            state = plateau.next_state(state, nn.Record(1, 1, "train", {"loss": loss}))
            seen.append(state[0])
        assert seen == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.06, 0.06, 0.06]

        place = FOLDER / f"plateau-{session.size}"
        rule = dict(batch=20, schedule=nn.schedules.plateau(0.5, factor=0.5, patience=1))
        whole = nn.Trainer(linear(), "sgd", **rule)
        more = dict(validation=(X, T), progress=False)
        expected = whole.fit(X, T, epochs=9, **more)
        assert whole.learning_rate < 0.5
        nn.Trainer(linear(), "sgd", checkpoint=place, **rule).fit(X, T, epochs=6, **more)
        other = nn.Trainer(linear(), "sgd", checkpoint=place, **rule)
        assert other.resume()
        assert other.fit(X, T, epochs=9, **more)["val_loss"] == expected["val_loss"][6:]
        assert other.learning_rate == whole.learning_rate
        with cases.raises(pleiad.InvalidArgument, "schedules.plateau", "needs validation data"):
            nn.Trainer(linear(), "sgd", **rule).fit(X, T, progress=False)
        with cases.raises(pleiad.InvalidArgument, "0 < factor < 1", "received 0.1, 2"):
            nn.schedules.plateau(0.1, factor=2)


def test_schedules_and_rules_are_copied_and_shown_in_the_words_of_their_constructors():
    for schedule in (
        nn.schedules.step(0.1, gamma=0.5, every=100),
        nn.schedules.warmup(nn.schedules.cosine(0.1, 50), 10),
        nn.schedules.fixed_step([0, 5], [1, 2]),
    ):
        for again in (pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule), eval(repr(schedule), vars(nn))):
            assert again == schedule and [again(k) for k in range(99)] == [schedule(k) for k in range(99)]
    assert repr(nn.schedules.step(0.1, gamma=0.5, every=100)) == "Schedule(type='step', base=0.1, gamma=0.5, freq=100)"
    plateau = nn.schedules.plateau(0.1, patience=3)
    assert repr(plateau) == repr(pickle.loads(pickle.dumps(plateau))) == "Plateau(base=0.1, patience=3)"
    rule = nn.AdamW(0.1)
    assert repr(copy.deepcopy(rule)) == repr(pickle.loads(pickle.dumps(rule))) == repr(rule)


if __name__ == "__main__":
    cases.run(dict(globals()))

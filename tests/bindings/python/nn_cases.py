"""pleiad.nn: building, forward and backward passes, training, in any world."""

import io
import os
import signal
import tempfile
import threading
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int32) + (X[:, 2] > 1)
LABELS = Y.astype(np.int32)


def mlp(seed=3, **more):
    layers = [nn.Dense(12, "tanh", name="hidden"), nn.Dense(3, name="scores")]
    return nn.Sequential(layers, input=(6,), loss=nn.SoftmaxLoss(), seed=seed, **more)


def quiet():
    return pleiad.init(timeout=600, log_level="off")


def test_machines_learn_and_stacks_unroll_the_same_in_every_world():
    x = (np.random.default_rng(1).random((120, 12)) < np.repeat(np.eye(3), 4, 1)[np.arange(120) % 3]).astype("float32")
    with quiet():
        errors = []
        for tied in (False, True):
            stack = nn.RBMStack(12, [8, 3], tied=tied, seed=2)
            start = nn.Trainer(stack.unrolled(), batch=20).evaluate(x)["se"]
            histories = stack.pretrain(x, epochs=8, optimizer=nn.SGD(0.1, momentum=0.5), batch=20, progress=False)
            assert [history["se"][-1] < history["se"][0] for history in histories] == [True, True]
            net = stack.unrolled()
            trainer = nn.Trainer(net, nn.SGD(0.05, momentum=0.9), batch=20)
            errors.append(trainer.evaluate(x)["se"])
            assert errors[-1] < start
            trainer.fit(x, epochs=10, progress=False)
            assert trainer.evaluate(x)["se"] < errors[-1]
            assert ("dec1/weight" in net.parameters) == (not tied)
        np.testing.assert_allclose(errors[0], errors[1], rtol=1e-4)  # tied and untied nets begin with equal errors


def test_local_filters_recurrence_and_small_layers_build_and_learn():
    rng = np.random.default_rng(2)
    images = rng.normal(size=(40, 8, 8, 1)).astype("float32")
    images[::2, :4] += 1
    labels = (np.arange(40) % 2).astype("int32")
    with quiet():
        stack = nn.SparseStack((8, 8, 1), [nn.SparseStage(filter=3, maps=3, pool=2)], classes=2)
        (history,) = stack.pretrain(images, epochs=5, optimizer=nn.SGD(0.002), batch=8, progress=False)
        assert history["reconstruction/se"][-1] < history["reconstruction/se"][0]
        net = stack.classifier()
        net.fix(*stack.layers)
        before = net.parameters["filter1/weight"].copy()
        trainer = nn.Trainer(net, nn.SGD(0.2), batch=8)
        trainer.fit(images, labels, epochs=5, progress=False)
        assert np.array_equal(before, net.parameters["filter1/weight"])
        np.testing.assert_allclose((before.reshape(-1, 9) ** 2).sum(1), 1, rtol=1e-5)
        net.fix(*stack.layers, fixed=False)
        trainer = nn.Trainer(net, nn.SGD(0.2), batch=8)
        trainer.fit(images, labels, epochs=10, progress=False)
        assert not np.array_equal(before, net.parameters["filter1/weight"])
        assert trainer.evaluate(images, labels)["accuracy"] > 0.9

        data = nn.Text("abcabd" * 100, steps=6)
        net = nn.Net(seed=4)
        piece = nn.CharRNN()(net.input((7,), "x", "int32"))
        cells = nn.Concat(axis=2)(nn.GRU(8, carry=True)(nn.OneHot(4)(piece)), nn.LSTM(8)(nn.Embedding(4, 5)(piece)))
        scores = nn.Dense(4, last_axis=True, name="scores")(nn.RNN(8, "tanh", carry=True)(cells))
        nn.SoftmaxLoss(name="loss")(scores, piece[1])
        net.add(nn.Accuracy(2), scores, piece[1], name="top2", phases=["test"])
        net.add(nn.Argsort(2), scores, name="best")
        trainer = nn.Trainer(net, nn.RMSProp(0.01), batch=4)
        history = trainer.fit(data, epochs=20, progress=False)
        assert history["loss/loss"][-1] < 0.2 < history["loss/loss"][0]
        assert trainer.evaluate(data)["top2/accuracy"] > 0.95
        assert net["best"].dtype == np.int32


def test_a_net_is_a_graph_with_several_inputs_outputs_and_shared_parameters():
    net = nn.Net("graph", dtype="float64", seed=2)
    a, b = net.input((4,), name="a"), net.input((6,), name="b")
    target = net.input((10,), name="t")
    cut = nn.Slice(sizes=[2, 4], name="cut")(b)
    left = nn.Dense(5, "sigmoid", weight=nn.init.gaussian(std=0.5), name="left")(a)
    right = nn.Dense(5, "sigmoid", weight=nn.Param(share="left/weight"), name="right")(cut[1])
    both = nn.Sum(name="both")(left, right)
    end = nn.Concat(name="end")(both, nn.Dense(5, name="more")(cut[0]))
    nn.EuclideanLoss(name="loss")(end, target)
    assert list(net.parameters) == ["left/weight", "left/bias", "right/bias", "more/weight", "more/bias"]
    assert net.targets == ["t"] and net.predictions == ["end"]
    x = {name: RNG.normal(size=(7, size)) for name, size in (("a", 4), ("b", 6), ("t", 10))}
    metrics = net.forward(x, phase="train")
    w, sigmoid = net.parameters["left/weight"], lambda v: 1 / (1 + np.exp(-v))
    expected = sigmoid(x["a"] @ w.T) + sigmoid(x["b"][:, 2:] @ w.T)
    np.testing.assert_allclose(net["both"], expected, rtol=1e-12)
    assert np.isclose(metrics["loss"], 0.5 * ((net["end"] - x["t"]) ** 2).sum() / 7)
    net.backward()
    gradient = net.gradients["left/weight"].copy()
    for place in [(0, 0), (4, 3)]:  # the gradient is the sum over both uses
        kept, step, losses = w[place], 1e-6, []
        for sign in (1, -1):
            w[place] = kept + sign * step
            losses.append(net.forward(x, phase="train")["loss"])
        w[place] = kept
        assert np.isclose(gradient[place], (losses[0] - losses[1]) / (2 * step), rtol=1e-5)
    text, dot = net.describe(), net.dot()
    assert "left/weight" in dot and "digraph" in dot
    assert all(name in text for name in (*net.layers, "parameters", "memory"))
    folder = Path(tempfile.mkdtemp())
    assert net.picture(folder / "net.dot").read_text() == dot
    assert "left" in net.picture(folder / "net.svg").read_text()
    with cases.raises(pleiad.InvalidArgument, "dot failed", "nothing"):
        net.picture(folder / "net.nothing")


def test_every_layer_of_the_engine_has_a_class():
    shown = [getattr(nn, name) for name in nn.__all__]
    made = [
        nn.Dense(3),
        nn.Convolution(2, 3),
        nn.Pooling(2),
        nn.LocalConvolution(2, 3),
        nn.CrossMapPooling(2),
        nn.RBM(2),
    ]
    made += [
        nn.RNN(2),
        nn.GRU(2),
        nn.LSTM(2),
        nn.Embedding(3, 2),
        nn.OneHot(3),
        nn.CsvOutput("x"),
        nn.RecordOutput("x"),
    ]
    made += [c() for c in shown if isinstance(c, type) and issubclass(c, nn.Layer) and c not in map(type, made) and c not in (nn.Layer, nn.Loss)]  # fmt: skip
    from pleiad import _nn

    assert sorted(layer.kind for layer in made) == sorted(_nn.layer_kinds())
    schedules = [
        nn.schedules.cosine(1, 9),
        nn.schedules.fixed(1),
        nn.schedules.linear(1, 2, 3),
        nn.schedules.exponential(1, 2),
    ]
    schedules += [nn.schedules.inverse(1, 2, 3), nn.schedules.inverse_t(1, 2), nn.schedules.step(1, 0.5, 2)]
    schedules += [nn.schedules.fixed_step([0, 5], [1, 2]), nn.schedules.epochs(1, 0.5, 2), nn.schedules.momentum(0.5, 0.9, 1, 5)]  # fmt: skip
    assert sorted(s.type for s in schedules) == sorted(_nn.schedule_names())
    names = {
        "constant",
        "gaussian",
        "uniform",
        "gaussian_sqrt_fan_in",
        "uniform_sqrt_fan_in",
        "uniform_sqrt_fan_in_out",
    }
    names |= {"node_normalized", "auto_uniform", "he"}
    assert set(_nn.init_names()) == names and all(callable(getattr(nn.init, name)) for name in names)


def test_arrays_are_the_nets_own_memory():
    net = mlp()
    net.forward(x=X[:10])
    weight = net.parameters["scores/weight"]
    weight[:] = 0
    net.parameters["scores/bias"][:] = [1, 2, 3]
    net.forward(x=X[:10])
    assert (net["scores"] == [1, 2, 3]).all()
    again = np.from_dlpack(net.parameters["scores/weight"])
    assert again.ctypes.data == weight.ctypes.data and weight.ctypes.data % 64 == 0
    del net
    assert (again == 0).all()  # the memory lives as long as an array that uses it


def test_layers_run_only_in_their_phases():
    net = nn.Net()
    x, label = net.input((3,), name="x"), net.input((), "label", "int32")
    scores = nn.Dense(2, name="scores")(x)
    net.add(nn.SoftmaxLoss(), scores, label, name="loss", phases=["train"])
    net.add(nn.SoftmaxLoss(top_k=2), scores, label, name="check", phases=["test"])
    feed = {"x": np.ones((4, 3)), "label": np.zeros(4, int)}
    assert set(net.forward(feed, phase="train")) == {"loss/loss", "loss/accuracy"}
    assert net.forward(feed, phase="test")["check/accuracy"] == 1
    with cases.raises(pleiad.InvalidArgument, 'unknown phase "tset"', 'did you mean "test"'):
        net.forward(feed, phase="tset")


def test_ranks_do_not_change_the_training():
    with quiet() as session:
        for exchange in ("all_reduce", "tables"):
            for rule in (nn.SGD(0.1), nn.SGD(0.1, momentum=0.9), nn.Adam(0.01)):
                alone, together = mlp(), mlp(seed=3 + session.rank)  # rank 0's values are used
                one = nn.Trainer(alone, rule, batch=12, exchange="none")
                all_of_us = nn.Trainer(together, rule, batch=12, exchange=exchange)
                assert all_of_us.local_batch == 12 // session.size
                mine = one.fit(X, LABELS, epochs=2, log_every=3, progress=False)
                ours = all_of_us.fit(X, LABELS, epochs=2, log_every=3, progress=False)
                np.testing.assert_allclose(ours["loss"], mine["loss"], rtol=1e-5)
                for name, value in alone.parameters.items():
                    np.testing.assert_allclose(together.parameters[name], value, rtol=1e-4, atol=1e-6)
                expected = one.evaluate(X, LABELS)
                got = all_of_us.evaluate(X, LABELS)
                assert np.isclose(got["loss"], expected["loss"], rtol=1e-5)
                assert np.isclose(got["accuracy"], expected["accuracy"], rtol=1e-6)


def test_evaluate_and_predict_see_every_sample_once():
    with quiet():
        net = mlp()
        trainer = nn.Trainer(net, batch=16)
        scores = trainer.predict(X[:37])
        assert scores.shape == (37, 3)
        expected = np.tanh(X[:37] @ net.parameters["hidden/weight"].T) @ net.parameters["scores/weight"].T
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
        log = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        for count in (37, 16, 1):
            got = trainer.evaluate(X[:count], LABELS[:count])
            assert np.isclose(got["loss"], -log[np.arange(count), LABELS[:count]].mean(), rtol=1e-5)
            assert np.isclose(got["accuracy"], (scores[:count].argmax(1) == LABELS[:count]).mean())
        both = trainer.predict(X[:5], ["hidden", "scores"])
        assert both["hidden"].shape == (5, 12) and (both["scores"] == trainer.predict(X[:5])).all()


class Watch(nn.Callback):
    def __init__(self, stop_at=None):
        self.steps, self.epochs, self.begun, self.ended, self.stop_at = [], [], None, 0, stop_at

    def on_begin(self, epochs, steps_per_epoch):
        self.begun = (epochs, steps_per_epoch)

    def on_step(self, step, metrics):
        self.steps.append(step)
        return None if self.stop_at is None or step < self.stop_at else False

    def on_epoch(self, epoch):
        self.epochs.append(epoch)

    def on_end(self):
        self.ended += 1


def test_fit_prints_and_returns_the_history():
    with quiet() as session:
        watch, seen = Watch(), []
        trainer = nn.Trainer(mlp(), nn.SGD(0.2), batch=20)
        history = trainer.fit(X, LABELS, epochs=3, validation=(X[:30], LABELS[:30]), callbacks=[watch, seen.append], progress=False)  # fmt: skip
        assert watch.begun == (3, 5) and watch.steps == list(range(1, 16)) and watch.epochs == [1, 2, 3]
        assert watch.ended == 1 and trainer.step_number == 15
        assert [record.phase for record in history] == ["train", "validate"] * 3 == [r.phase for r in seen]
        assert (
            history.names == ["loss", "accuracy", "val_loss", "val_accuracy"]
            and history["loss"][-1] < history["loss"][0]
        )
        assert [step for step, _ in history.points("val_loss")] == [5, 10, 15]
        assert history.history["val_accuracy"] == history["val_accuracy"]
        assert np.isclose(history["val_loss"][-1], trainer.evaluate(X[:30], LABELS[:30])["loss"])
        path = Path(tempfile.mkdtemp()) / "log.csv"
        trainer.fit(X, LABELS, epochs=1, callbacks=[nn.CsvLog(path)], progress=False)
        if session.rank == 0:
            assert len(path.read_text().splitlines()) == 8 and path.read_text().startswith("epoch,step,phase")
        with cases.raises(pleiad.InvalidArgument, "loss, accuracy, val_loss"):
            history["los"]


def test_a_stop_on_one_rank_stops_all():
    with quiet() as session:
        last = session.rank == session.size - 1
        trainer = nn.Trainer(mlp(), batch=20)
        trainer.fit(X, LABELS, epochs=50, callbacks=[Watch(stop_at=7 if last else None)], progress=False)
        assert trainer.step_number == 7
        trainer.fit(X, LABELS, epochs=50, callbacks=[lambda r: not last or r.step < 11], progress=False)
        assert trainer.step_number == 12


def test_early_stopping_gives_the_best_back():
    with quiet():
        net = mlp()
        trainer = nn.Trainer(net, nn.SGD(30.0), batch=20)  # much too fast
        stop = nn.EarlyStopping("val_loss", patience=2, restore_best=True)
        history = trainer.fit(X, LABELS, epochs=40, validation=(X, LABELS), callbacks=[stop], progress=False)
        assert len(history["val_loss"]) < 40 and stop.best == min(history["val_loss"])
        assert np.isclose(trainer.evaluate(X, LABELS)["loss"], stop.best, rtol=1e-5)


def test_ctrl_c_ends_the_run_after_a_step_on_all_ranks():
    with quiet() as session:
        last = session.rank == session.size - 1
        trainer = nn.Trainer(mlp(), batch=20)

        def press(record):
            if last and record.step == 40:
                os.kill(os.getpid(), signal.SIGINT)

        caught = False
        before = signal.getsignal(signal.SIGINT)
        try:
            trainer.fit(X, LABELS, epochs=10**6, callbacks=[press], progress=False)
        except KeyboardInterrupt:
            caught = True
        assert caught == last and trainer.step_number == 40 and signal.getsignal(signal.SIGINT) is before
        trainer.fit(X, LABELS, epochs=1, progress=False)  # the trainer can continue
        assert trainer.step_number == 45


def test_two_threads_train_two_nets():
    losses = {}

    def work(seed):
        trainer = nn.Trainer(mlp(seed), nn.SGD(0.1), batch=20, exchange="none")
        losses[seed] = trainer.fit(X, LABELS, epochs=30, progress=False)["loss"]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = dict(losses)
    for seed in (1, 2):
        work(seed)
        np.testing.assert_allclose(together[seed], losses[seed], rtol=1e-5)


def test_a_resumed_run_is_bit_identical():
    with quiet():
        first = nn.Trainer(mlp(), nn.Adam(0.01), batch=20)
        first.fit(X, LABELS, epochs=2, progress=False)
        kept = first.state_dict()
        first.fit(X, LABELS, epochs=2, progress=False)
        other = nn.Trainer(mlp(seed=77), nn.Adam(0.01), batch=20)
        other.load_state_dict(kept)
        other.fit(X, LABELS, epochs=2, progress=False)
        assert other.step_number == 20
        for name, value in first.net.parameters.items():
            assert (other.net.parameters[name] == value).all(), name
        del kept["step"]
        with cases.raises(pleiad.InvalidArgument, '"step" is missing'):
            other.load_state_dict(kept)


def test_step_by_step():
    with quiet() as session:
        net = mlp()
        trainer = nn.Trainer(net, nn.SGD(0.1), batch=12, fuse=False, schedule=nn.schedules.fixed(0.5))
        share = slice(12 // session.size * session.rank, 12 // session.size * (session.rank + 1))
        before = net.state_dict()
        metrics = trainer.step(X[:12][share], LABELS[:12][share])
        assert set(metrics) == {"loss", "accuracy"} and trainer.step_number == 1
        for name, gradient in net.gradients.items():  # summed over all ranks
            np.testing.assert_allclose(net.parameters[name], before[name] - 0.5 * gradient, rtol=1e-5, atol=1e-6)
        net.forward(x=X[:5])  # a pass on another batch in between
        trainer.step({"x": X[:12][share], "label": LABELS[:12][share]})
        with cases.raises(pleiad.InvalidArgument, f"expected {trainer.local_batch} samples"):
            trainer.step(X[:50], LABELS[:50])


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere():
    with quiet():
        for stream, bar in ((Terminal(), True), (io.StringIO(), False)):
            trainer = nn.Trainer(mlp(), batch=20)
            trainer.fit(X, LABELS, epochs=2, callbacks=[nn.Progress(stream=stream)], progress=False)
            text = stream.getvalue()
            assert ("\repoch 1/2" in text) == bar and ("steps/s" in text) == bar and ("█" in text) == bar
            assert text.count("train: loss") == 2 and "samples/s" in text


def test_errors_name_the_expected_and_received_values():
    bad = pleiad.InvalidArgument
    net = mlp()
    with cases.raises(bad, 'layer "conv"', "expected images", r"\(1, 6\)"):
        net.add(nn.Convolution(3, 3, name="conv"), "x")
    with cases.raises(bad, 'unknown input or layer "scors"', "did you mean"):
        net.add(nn.Dense(3), "scors")
    with cases.raises(bad, "dense", "relo", "relu"):
        net.add(nn.Dense(3, "relo"), "x")
    with cases.raises(bad, "unknown initialiser", "known"):
        nn.Dense(3, weight="gausian")
    with cases.raises(bad, "unknown layer"):
        nn.Layer("densee")
    with cases.raises(bad, 'unknown option "widht"'):
        net.add(nn.Layer("dense", out=3, widht=4), "x")
    with cases.raises(bad, "belongs to another net"):
        nn.Dense(3)(mlp().add(nn.Dense(2), "x"), net.add(nn.Dense(2), "x"))
    with cases.raises(bad, "float32 or float64"):
        nn.Net(dtype="int32")
    net = mlp()
    with cases.raises(bad, r"\(5, 6\)", r"\(5, 7\)"):
        net.forward(x=np.zeros((5, 7)))
    with cases.raises(bad, "no input", "y"):
        net.forward(x=X, y=LABELS)
    with cases.raises(bad, "expected int32", "float"):
        net.forward(x=X, label=LABELS + 0.5)
    with cases.raises(bad, "same number of samples"):
        net.forward(x=X, label=LABELS[:4])
    with cases.raises(pleiad.StateError, "call forward in the training phase"):
        mlp().backward()
    with cases.raises(bad, "label", "3 classes|0 to 2|class"):
        net.forward(x=X[:4], label=[0, 1, 3, 0])
    with cases.raises(bad, "unknown exchange"):
        nn.Trainer(net, exchange="nothing")
    with cases.raises(bad, "unknown updater", "adma"):
        nn.Trainer(net, "adma")
    with cases.raises(bad, "unknown field"):
        nn.Trainer(net, nn.SGD(0.1, speed=3))
    with cases.raises(bad, "y: expected 1 array"):
        nn.Trainer(net, exchange="none").fit(X, (LABELS, LABELS))
    with cases.raises(bad, "missing: label"):
        nn.Trainer(net, exchange="none").fit(X)
    with cases.raises(bad, "progress"):
        nn.Trainer(net, batch=20, exchange="none").fit(X, LABELS, progress="much")
    with cases.raises(bad, '"hidden/weight" has shape'):
        net.load_state_dict({**net.state_dict(), "hidden/weight": np.zeros(3)})
    image = nn.Net()
    nn.Flatten()(image.input((8, 8, 3), name="x"))
    with cases.raises(bad, "moveaxis|expected shape"):
        image.forward(x=np.zeros((2, 3, 8, 9)))


def test_a_nan_loss_names_step_and_layer():
    net = mlp()
    trainer = nn.Trainer(net, nn.SGD(0.1), batch=20, check_finite=True, exchange="none")
    trainer.fit(X, LABELS, epochs=1, progress=False)
    net.parameters["scores/bias"][1] = np.nan
    with cases.raises(pleiad.StateError, "step 5", '"scores"'):
        trainer.fit(X, LABELS, epochs=1, progress=False)


def test_an_evaluation_whose_loss_is_not_finite_raises_on_all_ranks():
    with quiet() as session:
        for wrong in (np.nan, np.inf):
            x = X.copy()
            x[1] = wrong  # a sample of rank 0
            for check in (True, False):
                trainer = nn.Trainer(mlp(), batch=16, check_finite=check)
                for call in (
                    lambda t=trainer: t.evaluate(x, LABELS),
                    lambda t=trainer: t.fit(X, LABELS, epochs=1, validation=(x, LABELS), progress=False),
                ):
                    if check:
                        rank = "on rank 0 " if session.size > 1 else ""
                        with cases.raises(
                            pleiad.StateError, f"evaluation at step \\d+: {rank}the loss is .*nan", '"hidden"'
                        ):
                            call()
                    else:
                        call()
            assert np.isnan(trainer.evaluate(x, LABELS)["loss"])


def test_a_launched_process_without_a_session_does_not_train_a_net_of_its_own():
    if int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1:
        with cases.raises(pleiad.StateError, r"pleiad\.init\(\)", 'exchange="none"'):
            nn.Trainer(mlp(), nn.SGD(0.1), batch=20)
    nn.Trainer(mlp(), nn.SGD(0.1), batch=20, exchange="none").fit(X, LABELS, epochs=1, progress=False)


def test_a_trainer_after_its_session():
    session = quiet()
    ranks = session.size
    trainer = nn.Trainer(mlp(), batch=20)
    session.shutdown()
    if ranks == 1:
        assert len(trainer.fit(X, LABELS, progress=False)) == 1
    else:
        with cases.raises(pleiad.StateError, "was shut down"):
            trainer.fit(X, LABELS, progress=False)


def test_objects_show_their_constructors():
    assert repr(nn.Dense(4)) == "Dense(units=4)"
    assert repr(nn.Dense(4, "relu", name="a")) == "Dense(units=4, activation='relu', name='a')"
    assert repr(nn.Layer("dropout", ratio=0.3)) == "Layer(kind='dropout', ratio=0.3)"
    assert repr(nn.GRU(3, carry=True)) == "GRU(units=3, carry=True)"
    with quiet():
        net = mlp()
        assert repr(nn.Trainer(net, nn.SGD(0.5), batch=8)) == (
            f"Trainer(net={net!r}, optimizer=Updater('sgd', learning_rate=0.5), batch=8)"
        )
        data = nn.Dataset(net, {"x": X, "label": LABELS}, seed=2)
        assert repr(data) == f"Dataset(net={net!r}, arrays={{'x': (90, 6), 'label': (90,)}}, seed=2)"
    assert repr(nn.Text("abc" * 10, 5)) == "Text(text=<30 bytes>, steps=5)"


if __name__ == "__main__":
    cases.run(globals())

"""pleiad.nn: checkpoints, stores as samples, plans and event files, in any world.

FOLDER is one that all ranks see.
"""

import os
import signal
from pathlib import Path

import cases
import numpy as np

import pleiad
from pleiad import nn

FOLDER = Path(os.environ["FOLDER"])
RNG = np.random.default_rng(6)
IMAGES = RNG.integers(0, 256, (96, 2, 6, 6), dtype="uint8")
LABELS = (IMAGES[:, :, :3].mean(axis=(1, 2, 3)) > IMAGES[:, :, 3:].mean(axis=(1, 2, 3))).astype("int32")
X = (np.moveaxis(IMAGES, 1, -1).astype("float32") - 127.5) * np.float32(1 / 64)


def cnn(seed=3):
    layers = [
        nn.Convolution(4, 3, pad=1, name="conv"),
        nn.BatchNorm(name="norm"),
        nn.Activation("relu"),
        nn.Dropout(0.1),
    ]
    layers += [nn.Dense(8, "tanh", name="hidden"), nn.Dense(2, name="scores")]
    return nn.Sequential(layers, input=(6, 6, 2), loss=nn.SoftmaxLoss(), seed=seed)


def quiet():
    return pleiad.init(timeout=600, log_level="off")


def stored(session, kind="kvfile"):
    """Rank 0 writes the images to a file."""
    path = FOLDER / f"images-{session.size}.{kind}"
    if session.rank == 0 and not path.exists():
        nn.write_store(kind, path, data=IMAGES, labels=LABELS)
    session.barrier()
    return nn.open_store(kind, path, classes=2)


def samples(store, **more):
    return nn.StoreSamples(store, mean=127.5, scale=1 / 64, **more)


def same(one, other):
    return all((one[name] == other[name]).all() for name in one)


def test_a_stopped_run_resumes_bit_identically():
    with quiet() as session:
        store = stored(session)
        whole = nn.Trainer(cnn(), nn.Adam(0.01), batch=16)
        expected = whole.fit(samples(store), epochs=3, log_every=1, progress=False)["loss"]
        assert len(expected) == 18 and expected[-1] < expected[0]
        for stop in (1, 6, 10):
            place = FOLDER / f"stop-{session.size}-{stop}"
            first = nn.Trainer(cnn(), nn.Adam(0.01), batch=16, checkpoint=place)
            assert not first.resume()
            end = [lambda record, stop=stop: record.step < stop]
            losses = first.fit(samples(store), epochs=3, log_every=1, callbacks=end, progress=False)["loss"]
            assert first.step_number == stop
            # A seed that load_state replaces.
            other = nn.Trainer(cnn(seed=50), nn.Adam(0.01), batch=16, checkpoint=place)
            assert other.resume() and other.step_number == stop
            history = other.fit(samples(store), epochs=3, log_every=1, progress=False)
            assert losses + history["loss"] == expected and history.records[0].epoch == stop // 6 + 1
            assert same(whole.net.state_dict(), other.net.state_dict())


def test_checkpoints_are_saved_at_the_requested_steps_and_the_last_are_kept():
    with quiet() as session:
        place = FOLDER / f"series-{session.size}"
        trainer = nn.Trainer(cnn(), batch=32, checkpoint=place, checkpoint_every=2, keep=2)
        trainer.fit(X, LABELS, epochs=3, progress=False)
        session.barrier()
        assert sorted(p.name for p in place.iterdir()) == ["step-00000008", "step-00000009"], list(place.iterdir())
        session.barrier()
        loaded = nn.load_net(place / "step-00000009")
        assert loaded.layers == trainer.net.layers and loaded.inputs == trainer.net.inputs
        assert same(loaded.state_dict(), trainer.net.state_dict())
        loaded.forward(x=X[:5])
        again = nn.Net.from_text(loaded.text())
        assert again.text() == loaded.text() == trainer.net.text() and again.predictions == ["scores"]
        with cases.raises(pleiad.InvalidArgument, "checkpoint_every", "folder"):
            nn.Trainer(cnn(), batch=32, checkpoint_every=2)


def test_a_state_is_saved_and_loaded_by_name():
    with quiet() as session:
        place = FOLDER / f"saved-{session.size}"
        trainer = nn.Trainer(cnn(), nn.SGD(0.1, momentum=0.9), batch=32)
        trainer.fit(X, LABELS, epochs=1, progress=False)
        trainer.save(place)
        kept = trainer.net.state_dict()
        trainer.fit(X, LABELS, epochs=1, progress=False)
        trainer.load(place)
        assert trainer.step_number == 3 and same(kept, trainer.net.state_dict())
        other = nn.Trainer(cnn(), nn.Adam(), batch=32)
        with cases.raises(pleiad.FileError, '"momentum"', '"adam"'):
            other.load(place)
        with cases.raises(pleiad.FileError, "nowhere"):
            trainer.load(FOLDER / "nowhere")
        store = stored(session)
        with cases.raises(pleiad.InvalidArgument, "trained on 96 samples in memory", "received 96 of"):
            trainer.fit(samples(store), epochs=1, progress=False)
        trainer = nn.Trainer(cnn(), nn.SGD(0.1, momentum=0.9), batch=32)
        trainer.fit(samples(store), epochs=1, progress=False)
        trainer.save(place)
        fresh = nn.Trainer(cnn(), nn.SGD(0.1, momentum=0.9), batch=32)
        fresh.load(place)
        with cases.raises(pleiad.InvalidArgument, "trained on 96 of", "shuffled by seed 1", "in order"):
            fresh.fit(samples(store, shuffle=False), epochs=1, progress=False)


def test_ctrl_c_leaves_a_checkpoint():
    with quiet() as session:
        place = FOLDER / f"stopped-{session.size}"
        trainer = nn.Trainer(cnn(), batch=32, checkpoint=place)

        class Press(nn.Callback):
            def on_step(self, step, metrics):
                if step == 4 and session.rank == session.size - 1:
                    os.kill(os.getpid(), signal.SIGINT)

        try:
            trainer.fit(X, LABELS, epochs=100, callbacks=[Press()], progress=False)
        except KeyboardInterrupt:
            assert session.rank == session.size - 1
        session.barrier()
        assert (place / "step-00000004").is_dir()


def test_a_store_gives_the_training_that_its_arrays_give():
    with quiet() as session:
        for kind in ("kvfile", "lmdb", "hdf5"):
            store = stored(session, kind)
            assert len(store) == 96 and store.fields["data"] == ("uint8", (2, 6, 6))
            np.testing.assert_array_equal(store.read("data", [5, 1]), IMAGES[[5, 1]])
            np.testing.assert_array_equal(store.read("label"), LABELS)
            ours = nn.Trainer(cnn(), nn.SGD(0.1), batch=32)
            history = ours.fit(samples(store, shuffle=False), epochs=2, validation=samples(store), progress=False)
            other = nn.Trainer(cnn(), nn.SGD(0.1), batch=32)
            expected = other.fit(X, LABELS, epochs=2, shuffle=False, validation=(X, LABELS), progress=False)
            np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
            np.testing.assert_allclose(history["val_loss"], expected["val_loss"], rtol=1e-5)
            mine, theirs = ours.evaluate(samples(store)), other.evaluate(X, LABELS)
            assert np.isclose(mine["loss"], theirs["loss"], rtol=1e-5) and mine["accuracy"] == theirs["accuracy"]
        mean, deviation = store.statistics(per_pixel=True)
        np.testing.assert_allclose(mean.reshape(2, 6, 6), IMAGES.mean(axis=0), rtol=1e-5)
        assert deviation.shape == (72,)
        assert "96 records" in repr(store)


def test_mistakes_about_stores_are_named():
    with quiet() as session:
        store = stored(session)
        trainer = nn.Trainer(cnn(), batch=32)
        with cases.raises(pleiad.InvalidArgument, "nn.StoreSamples"):
            trainer.fit(store)
        with cases.raises(pleiad.InvalidArgument, "the StoreSamples contains the targets"):
            trainer.fit(samples(store), LABELS)
        with cases.raises(pleiad.InvalidArgument, "expected a store", "ndarray"):
            nn.StoreSamples(IMAGES)
        with cases.raises(pleiad.InvalidArgument, "kvflie", 'did you mean "kvfile"'):
            nn.open_store("kvflie", "a")
        with cases.raises(pleiad.FileError, "No such file"):
            nn.open_store("kvfile", FOLDER / "nothing")
        with cases.raises(pleiad.InvalidArgument, "expected 96, one per record; received 2"):
            nn.write_store("kvfile", FOLDER / "x", data=IMAGES, labels=[1, 2])
        with cases.raises(pleiad.InvalidArgument, "received float16"):
            nn.write_store("kvfile", FOLDER / "x", data=IMAGES.astype("float16"))
        with cases.raises(pleiad.InvalidArgument, 'no field|unknown field "dat"'):
            store.read("dat")


def test_plans_do_not_change_the_training():
    with quiet() as session:
        alone = nn.Trainer(cnn(), nn.Adam(0.01), batch=32, exchange="none")
        expected = alone.fit(X, LABELS, epochs=3, validation=(X, LABELS), progress=False)
        for plan, split in (("feature", ()), ("hybrid", ("hidden",))):
            place = FOLDER / f"plan-{session.size}-{plan}"
            trainer = nn.Trainer(cnn(), nn.Adam(0.01), batch=32, plan=plan, split=split, checkpoint=place)
            history = trainer.fit(X, LABELS, epochs=3, validation=(X, LABELS), progress=False)
            np.testing.assert_allclose(history["loss"], expected["loss"], rtol=2e-5, atol=2e-5)
            np.testing.assert_allclose(history["val_loss"], expected["val_loss"], rtol=1e-4, atol=1e-4)
            scores = trainer.predict(X[: trainer.local_batch])
            np.testing.assert_allclose(scores, alone.predict(X[: trainer.local_batch]), rtol=1e-3, atol=1e-3)
            if session.size > 1:
                assert trainer.net.parameters["hidden/weight"].shape[0] == 8 // session.size
            whole = nn.load_net(place / "step-00000009")
            assert whole.parameters["hidden/weight"].shape == (8, 144)
        assert "hidden" in nn.explain(cnn(), ranks=2, batch=32, plan="hybrid")
        with cases.raises(pleiad.InvalidArgument, "hybird", 'did you mean "hybrid"'):
            nn.Trainer(cnn(), batch=32, plan="hybird")


def test_event_files_are_written_by_rank_0():
    with quiet() as session:
        place = FOLDER / f"events-{session.size}"
        trainer = nn.Trainer(cnn(), nn.Adam(0.01), batch=32)
        board = nn.TensorBoard(place, pictures=["conv"])
        trainer.fit(X, LABELS, epochs=2, validation=(X, LABELS), callbacks=[board], progress=False)
        session.barrier()
        (file,) = place.iterdir()
        if session.rank == 0:
            read_events(place, trainer)
            assert file == Path(board.log.path)
        else:
            assert board.log is None
        session.barrier()
        with cases.raises(pleiad.InvalidArgument, 'unknown layer "cnov"'):
            trainer.fit(X, LABELS, callbacks=[nn.TensorBoard(place, pictures=["cnov"])], progress=False)


def read_events(place, trainer):
    """Reads with TensorBoard's own reader."""
    from tensorboard.backend.event_processing import event_accumulator

    kinds = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
    events = event_accumulator.EventAccumulator(str(place), size_guidance=kinds)
    events.Reload()
    tags = events.Tags()
    assert set(tags["scalars"]) == {f"{phase}/{name}" for phase in ("train", "validate") for name in ("loss", "accuracy", "samples_per_second")}  # fmt: skip
    losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert [step for step, _ in losses] == [3, 6]
    np.testing.assert_allclose([value for _, value in losses], trainer.history["loss"], rtol=1e-6)
    assert set(tags["histograms"]) == {f"parameters/{name}" for name in trainer.net.parameters}
    last = events.Histograms("parameters/hidden/weight")[-1]
    weight = trainer.net.parameters["hidden/weight"]
    value = last.histogram_value
    assert last.step == 6 and value.num == weight.size and sum(value.bucket) == weight.size
    assert np.isclose(value.min, weight.min()) and np.isclose(value.max, weight.max())
    assert np.isclose(value.sum, weight.sum(dtype="float64"), rtol=1e-6) and value.bucket_limit[-1] >= value.max
    assert set(tags["images"]) == {"filters/conv/weight", "filters/hidden/weight", "outputs/conv"}
    picture = events.Images("filters/conv/weight")[-1]  # 8 filters of 3 x 3 in 3 columns
    assert (picture.height, picture.width) == (11, 11) and picture.encoded_image_string.startswith(b"\x89PNG")


def test_reconstructions_are_pictures_that_tensorboard_reads():
    x = (np.random.default_rng(4).random((64, 36)) < np.repeat(np.eye(4), 9, 1)[np.arange(64) % 4]).astype("float32")
    with quiet() as session:
        place = FOLDER / f"reconstructions-{session.size}"
        stack = nn.RBMStack(36, [12, 4], seed=2)
        stack.pretrain(x, epochs=4, optimizer=nn.SGD(0.1, momentum=0.5), batch=16, progress=False)
        net = stack.unrolled()
        trainer = nn.Trainer(net, nn.SGD(0.05, momentum=0.9), batch=16)
        trainer.fit(x, epochs=3, callbacks=[nn.TensorBoard(place, pictures=["dec1"])], progress=False)
        session.barrier()
        if session.rank == 0:
            rows = np.array(net.output("dec1"))
            assert rows.shape == (16 // session.size, 36)
            read_reconstructions(place, rows)
        session.barrier()


def read_reconstructions(place, rows):
    """Returns the squares of the last picture, one per row. In the picture they are side by side with a line between
    them.
    """
    import io

    from PIL import Image
    from tensorboard.backend.event_processing import event_accumulator

    events = event_accumulator.EventAccumulator(str(place), size_guidance={"images": 0})
    events.Reload()
    shown = events.Images("outputs/dec1")
    assert [picture.step for picture in shown] == [4, 8, 12]
    picture = np.asarray(Image.open(io.BytesIO(shown[-1].encoded_image_string)).convert("L")).astype("float64")
    columns = (picture.shape[1] + 1) // 7
    for index, row in enumerate(rows):
        top, left = index // columns * 7, index % columns * 7
        square = picture[top : top + 6, left : left + 6].ravel()
        np.testing.assert_allclose(square, (row - rows.min()) / np.ptp(rows) * 255, atol=1.01)


if __name__ == "__main__":
    cases.run(dict(globals()))

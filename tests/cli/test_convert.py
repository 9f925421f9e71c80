"""`pleiad convert` as users call it, compared with other readers and writers."""

import os
import pickle
import pty
import shutil
import signal
import struct
import subprocess
import time

import h5py
import lmdb
import numpy
import pytest
from PIL import Image

SHAPE = (3, 32, 32)
COUNT = 40


@pytest.fixture(scope="module")
def records():
    random = numpy.random.default_rng(5)
    return random.integers(0, 256, (COUNT, *SHAPE), dtype="uint8"), random.integers(0, 10, COUNT, dtype="int32")


@pytest.fixture
def start(tmp_path, records):
    """Writes the records as CIFAR-10's binary file."""
    images, labels = records
    path = tmp_path / "start.bin"
    path.write_bytes(b"".join(bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True)))
    return f"cifar10:{path}"


def converted(run, pleiad, *words):
    ended = run(pleiad, "convert", *words)
    assert ended.returncode == 0, ended.stderr
    return ended


def back(run, pleiad, tmp_path, place, *words):
    """Returns the content of a store, converted to CIFAR-10's binary format."""
    converted(run, pleiad, place, f"cifar10:{tmp_path / 'back.bin'}", "--to-shape", "3,32,32", *words)
    numbers = numpy.frombuffer((tmp_path / "back.bin").read_bytes(), "uint8").reshape(-1, 3073)
    return numbers[:, 1:].reshape(-1, *SHAPE), numbers[:, 0].astype("int32")


def test_every_kind_is_written_and_read_back(run, pleiad, tmp_path, records, start):
    shaped = ("--shape", "3,32,32")
    kinds = {
        "kvfile": ("a.kv", ()),
        "lmdb": ("a.lmdb", ()),
        "hdf5": ("a.h5", ()),
        "images": ("pictures", ()),
        "idx": ("images.idx,labels.idx", ()),
        "cifar10_python": ("data_batch_1", ()),
        "csv": ("a.csv", shaped),
        "textfile": ("a.txt", shaped),
        "libsvm": ("a.svm", shaped),
    }
    before, here = start, os.getcwd()
    os.chdir(tmp_path)
    try:
        for kind, (path, words) in kinds.items():  # each store is converted from the previous one
            place = f"{kind}:{path}"
            extra = ("--shape", "3,32,32") if before.split(":")[0] in ("csv", "textfile", "libsvm") else ()
            ended = converted(run, pleiad, before, place, *extra)
            assert f"{COUNT} records" in ended.stdout
            images, labels = back(run, pleiad, tmp_path, place, *words)
            assert numpy.array_equal(images, records[0]) and numpy.array_equal(labels, records[1]), kind
            before = place
    finally:
        os.chdir(here)


def test_others_read_what_is_written(run, pleiad, tmp_path, records, start):
    images, labels = records
    converted(run, pleiad, start, f"hdf5:{tmp_path / 'a.h5'}", "--type", "float32")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"].dtype == "float32" and numpy.array_equal(file["data"], images)
        assert numpy.array_equal(file["label"], labels)
    converted(run, pleiad, start, f"lmdb:{tmp_path / 'a.lmdb'}", "--digits", 5)
    with lmdb.open(str(tmp_path / "a.lmdb"), readonly=True, lock=False) as env, env.begin() as transaction:
        keys = [key for key, _ in transaction.cursor()]
        assert keys == [b"%05d" % i for i in range(COUNT)]
        assert images[7].tobytes() in transaction.get(b"00007")
    converted(run, pleiad, start, f"images:{tmp_path / 'pictures'}", "--class-names", ",".join("abcdefghij"))
    picture = numpy.asarray(Image.open(tmp_path / "pictures" / "abcdefghij"[labels[3]] / "00000003.png"))
    assert numpy.array_equal(numpy.moveaxis(picture, -1, 0), images[3])


def test_pickled_batches_are_those_that_python_knows(run, pleiad, tmp_path, records, start):
    images, labels = records
    converted(run, pleiad, start, f"cifar10_python:{tmp_path / 'data_batch_1'}")
    for encoding, key in (("bytes", str.encode), ("latin1", str)):  # the two ways in which these files are opened
        with open(tmp_path / "data_batch_1", "rb") as file:
            batch = pickle.load(file, encoding=encoding)
            assert not file.read(1)
        assert set(batch) == {key(name) for name in ("batch_label", "labels", "data", "filenames")}
        data = batch[key("data")]
        assert data.dtype == "uint8" and data.shape == (COUNT, 3072) and data.flags.c_contiguous
        assert numpy.array_equal(data.reshape(-1, *SHAPE), images)
        assert type(batch[key("labels")]) is list and batch[key("labels")] == labels.tolist()
        assert batch[key("filenames")] == [key(f"{i:06}.png") for i in range(COUNT)]
        assert batch[key("batch_label")] == key("training batch 1 of 1")


def test_what_others_write_is_read(run, pleiad, tmp_path, records):
    images, labels = records
    with h5py.File(tmp_path / "a.h5", "w") as file:  # packed in chunks, another type and byte order, other names
        file.create_dataset("set/x", data=images.astype(">i2"), chunks=(7, 3, 32, 32), compression="gzip", shuffle=True)
        file["set/y"] = labels.astype("float32")
    got = back(run, pleiad, tmp_path, f"hdf5:{tmp_path / 'a.h5'}", "--datasets", "set/x,set/y")
    assert numpy.array_equal(got[0], images) and numpy.array_equal(got[1], labels)
    with lmdb.open(str(tmp_path / "caffe"), map_size=1 << 24) as env, env.begin(write=True) as transaction:
        for i, (picture, label) in enumerate(zip(images, labels, strict=True)):  # Caffe's Datum
            datum = b"\x08\x03\x10\x20\x18\x20\x22\x80\x18" + picture.tobytes() + b"\x28" + bytes([label])
            transaction.put(b"%08d_name" % i, datum)
    got = back(run, pleiad, tmp_path, f"lmdb:{tmp_path / 'caffe'}")
    assert numpy.array_equal(got[0], images) and numpy.array_equal(got[1], labels)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_of_every_protocol_are_read(run, pleiad, tmp_path, records, protocol):
    images, labels = records
    for part, rows in enumerate((slice(0, 15), slice(15, None))):
        batch = {"data": images[rows].reshape(-1, 3072), "labels": labels[rows].tolist(), "batch_label": f"part {part}"}
        (tmp_path / f"batch{part}").write_bytes(pickle.dumps(batch, protocol))
    got = back(run, pleiad, tmp_path, f"cifar10_python:{tmp_path / 'batch0'},{tmp_path / 'batch1'}")
    assert numpy.array_equal(got[0], images) and numpy.array_equal(got[1], labels)


def test_a_mean_record_is_written_on_request(run, pleiad, tmp_path, records, start):
    ended = converted(run, pleiad, start, f"kvfile:{tmp_path / 'a.kv'}", "--mean", tmp_path / "mean.bin")
    assert "mean.bin" in ended.stdout
    content = (tmp_path / "mean.bin").read_bytes()
    assert content[:12] == struct.pack("<Q", 4) + b"mean"
    message = content[20:]
    assert message[:6] == b"\x08\x03\x08\x20\x08\x20" and message[6] == 0x22
    mean = numpy.frombuffer(message[-3072 * 4 :], "<f4").reshape(SHAPE)
    assert numpy.allclose(mean, records[0].mean(axis=0), rtol=1e-6)


def test_progress_is_lines_in_a_log_and_a_line_on_a_terminal(run, pleiad, tmp_path, start):
    ended = converted(run, pleiad, start, f"kvfile:{tmp_path / 'a.kv'}")
    lines = ended.stderr.splitlines()
    assert 5 <= len(lines) <= 11 and all("of 40 records" in line and "\r" not in line for line in lines)
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [pleiad, "convert", start, f"kvfile:{tmp_path / 'b.kv'}"], stderr=terminal, stdout=subprocess.DEVNULL
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(main, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.wait(30) == 0
    os.close(main)
    assert b"\r" in shown and b"100%" in shown


def test_a_converter_that_is_stopped_leaves_nothing(pleiad, tmp_path):
    lines = tmp_path / "large.csv"
    lines.write_text("".join(f"{i % 10}," + ",".join(["0.5"] * 2000) + "\n" for i in range(6000)))
    process = subprocess.Popen(
        [pleiad, "convert", f"csv:{lines}", f"images:{tmp_path / 'out'}", "--shape", "1,40,50", "--type", "uint8"],
        stderr=subprocess.PIPE,
        text=True,
    )
    # These values do not fit in bytes.
    assert process.wait(600) == 1 and "does not fit in uint8" in process.stderr.read()
    text = lines.read_text().replace("0.5", "5")
    for times in (1, 4, 16):
        lines.write_text(text * times)
        process = subprocess.Popen(
            [pleiad, "convert", f"csv:{lines}", f"images:{tmp_path / 'out'}", "--shape", "1,40,50"],
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 300
        while not list(tmp_path.glob(".out.*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        if process.wait(300) != 0:
            break
        shutil.rmtree(tmp_path / "out")  # the conversion ended before the signal: once more, with more data
    assert process.returncode == 130 and "was not written" in process.stderr.read()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.csv"]


def test_mistakes_are_named(run, pleiad, tmp_path, start):
    def refuses(code, *words):
        ended = run(pleiad, "convert", *words)
        assert ended.returncode == code, ended.stderr
        return ended.stderr

    assert "KIND:PATH" in refuses(1, start, "kvfile")
    assert 'did you mean "kvfile"' in refuses(1, start, f"kvflie:{tmp_path / 'a'}")
    assert 'did you mean "cifar10"' in refuses(1, f"cifar11:{tmp_path / 'start.bin'}", f"kvfile:{tmp_path / 'a'}")
    assert "No such file" in refuses(1, f"cifar10:{tmp_path / 'none.bin'}", f"kvfile:{tmp_path / 'a'}")
    assert "images and labels" in refuses(1, start, f"idx:{tmp_path / 'a'}")
    assert 'did you mean "--mean"' in refuses(2, start, f"kvfile:{tmp_path / 'a'}", "--maen", "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["start.bin"]

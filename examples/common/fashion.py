"""Helpers of the Python examples: Fashion-MNIST, a progress bar and a learning curve. Nothing here is about training."""

import csv
import gzip
import pathlib
import sys
import time

import numpy

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")  # the folder of Debian's package dataset-fashion-mnist


def read_idx(path):
    """Reads the array in a gzipped IDX file of bytes."""
    try:
        with gzip.open(path) as file:
            data = file.read()
    except FileNotFoundError:
        sys.exit(f"{path}: not found; install Debian's package dataset-fashion-mnist, or name the folder with --data")
    sides = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    shape = numpy.frombuffer(data, ">u4", sides, 4) if len(data) >= 4 + 4 * sides else []
    if not sides or int(numpy.prod(shape, dtype=numpy.int64)) != len(data) - 4 - 4 * sides:
        sys.exit(f"{path}: not a complete IDX file of bytes")
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * sides).reshape(shape)


def load(samples=60000, folder=FOLDER):
    """Returns training images and labels, test images and labels: float32 rows of 784 values in [0, 1], and int32."""

    def part(name, count):
        images = read_idx(pathlib.Path(folder) / f"{name}-images-idx3-ubyte.gz")[:count]
        labels = read_idx(pathlib.Path(folder) / f"{name}-labels-idx1-ubyte.gz")[:count]
        return images.reshape(len(images), -1).astype("float32") / numpy.float32(255), labels.astype("int32")

    return *part("train", samples), *part("t10k", max(samples // 6, 100))


def share(images, labels, worker, workers, batch):
    """Returns the images, labels and batch size of this worker: every `workers`-th image, in batches of batch / workers images.
    All workers have the same number of batches."""
    batch = max(1, batch // workers)
    count = len(images) // workers // batch * batch
    if count == 0:
        sys.exit(f"expected at least one batch of {batch} for each of {workers} workers; received {len(images)} images")
    return images[worker::workers][:count], labels[worker::workers][:count], batch


def add_options(parser):
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=60000, help="number of training images to use")
    parser.add_argument("--data", default=FOLDER, help="folder of the IDX files")
    parser.add_argument("--sync", action="store_true", help="use a synchronous server")
    parser.add_argument("--curve", help="write the learning curve to this CSV file")
    return parser


class Watch:
    """Shows a progress bar on a terminal and a line per epoch, and records the learning curve. Does nothing unless `shown`."""

    def __init__(self, shown, epochs, batches, examples, curve=None):
        self.shown, self.epochs, self.batches, self.examples = shown, epochs, batches, examples
        self.started, self.paused, self.drawn = time.perf_counter(), 0.0, 0.0
        self.file = open(curve, "w", newline="") if shown and curve else None  # noqa: SIM115
        self.rows = csv.writer(self.file) if self.file else None
        if self.rows:
            self.rows.writerow(["seconds", "examples", "accuracy", "loss"])

    def batch(self, epoch, done):
        now = time.perf_counter()
        if not self.shown or not sys.stderr.isatty() or (now - self.drawn < 0.1 and done < self.batches):
            return
        self.drawn = now
        filled = 30 * done // self.batches
        bar = "=" * filled + " " * (30 - filled)
        print(f"\repoch {epoch + 1}/{self.epochs} [{bar}] {done}/{self.batches}", end="", file=sys.stderr, flush=True)

    def epoch(self, epoch, test):
        """Ends an epoch. `test()` returns the loss and the accuracy on the test images; its time is not counted."""
        if not self.shown:
            return
        seconds = time.perf_counter() - self.started - self.paused
        loss, accuracy = (float(number) for number in test())
        self.paused = time.perf_counter() - self.started - seconds
        if sys.stderr.isatty():
            print("\r" + " " * 79 + "\r", end="", file=sys.stderr)
        print(f"epoch {epoch + 1}: test loss {loss:.4f}, accuracy {accuracy:.2%}, {seconds:.1f} s", flush=True)
        if self.rows:
            self.rows.writerow([f"{seconds:.3f}", (epoch + 1) * self.examples, f"{accuracy:.6f}", f"{loss:.6f}"])
            self.file.flush()

"""Checkpoints of a whole training loop."""

import contextlib
import io
import os
import pickle
import tempfile
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy
import torch

from pleiad.errors import FileError, InvalidArgument
from pleiad.objects import all_gather_object
from pleiad.sessions import Session
from pleiad.sharding import Sampler
from pleiad.torch.loader import ShardedLoader
from pleiad.torch.random_state import random_state, set_random_state
from pleiad.torch.start import fingerprint
from pleiad.worlds import agree, all_workers

WHERE = "Checkpoint"
FORMAT = "pleiad.torch.Checkpoint"
VERSION = 1
RESERVED = ("format", "version", "ranks", "random", "values")


class Checkpoint:
    """Saves and restores everything that a training loop needs to continue, in one file.

        checkpoint = pleiad.torch.Checkpoint(
            "out/last.pt", model=model, optimizer=optimizer, scheduler=scheduler, loader=loader
        )
        begun = checkpoint.load() or {"step": 0}    # None if there is no file yet
        ...
        checkpoint.save(step=step)

    The parts may have any names. A part is any object with `state_dict` and `load_state_dict`. Rank 0 reads and writes the
    file, so it may be on a disk that no other rank can access; the other ranks receive what rank 0 has read. Models and
    optimizers are saved with the state of rank 0, and a sharded loader with the position of all ranks. All other parts must
    be equal on all ranks. The states of the random generators (PyTorch, NumPy, Python) are saved for every rank unless
    random=False.

    A different number of ranks may load the file. The random generators are then seeded from the saved state and the rank.
    Writing is atomic: if a job ends while it writes, the previous file stays intact. Files contain tensors and plain values,
    and reading them does not execute code. `torch.load(path, weights_only=True)["model"]` reads the model without Pleiad.

    `save` and `load` are collective. A missing folder, a damaged file or a file of another kind raises a FileError on all ranks.
    """

    def __init__(
        self, path: "str | os.PathLike[str]", *, random: bool = True, session: Session | None = None, **parts: Any
    ) -> None:
        self.path = os.fspath(path)
        self.session = all_workers(session, WHERE)
        self._random = random
        if not parts:
            raise InvalidArgument(f"[{WHERE}] expected parts to save, such as model=model; received none")
        for name, part in parts.items():
            if name in RESERVED:
                raise InvalidArgument(
                    f"[{WHERE}] the name {name} is reserved by the file format; choose another name for the part"
                )
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise InvalidArgument(
                    f"[{WHERE}] {name}: expected state_dict and load_state_dict; received {type(part).__name__}"
                )
        self._parts = parts
        agree(self.session, WHERE, [f"random {random}", *parts])

    def save(self, **values: Any) -> None:
        """Writes the file. Collective. `values` are plain values that `load` returns, such as the step."""
        where = f"{WHERE}.save"
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION, "ranks": self.session.size}
        problem, states = None, {}
        try:
            # All ranks call this, because the state_dict of an embedding in a table may be collective.
            states = {name: _plain(part.state_dict(), name, where) for name, part in self._parts.items()}
            content["values"] = _plain(values, "values", where)
        except InvalidArgument as refused:  # raised below on all ranks, so that none waits for this one
            problem = refused
        self._raise_together(problem)
        alike = {"values": content["values"]}
        for name, part in self._parts.items():
            if isinstance(part, ShardedLoader | Sampler):
                places = all_gather_object(states[name], session=self.session)
                states[name] = min(places, key=lambda place: (place["epoch"], place["position"]))
            elif not isinstance(part, torch.nn.Module | torch.optim.Optimizer):
                alike[name] = states[name]
        agree(self.session, where, [f"{name} {_digest(state)}" for name, state in alike.items()])
        if self._random:
            content["random"] = all_gather_object(random_state(), session=self.session)
        failure: Exception | None = None
        if self.session.rank == 0:
            try:
                write_atomically(self.path, lambda file: torch.save({**content, **states}, file))
            except OSError as error:
                failure = FileError(f"[{where}] cannot write {self.path}: {error.strerror or error}")
        self._raise_together(failure)

    def load(self) -> dict[str, Any] | None:
        """Restores all parts and returns the values that were passed to `save`, or None if there is no file. Collective.
        Ignores parts of the file that this checkpoint does not have."""
        data: bytes | None = None
        failure: Exception | None = None
        if self.session.rank == 0:
            try:
                with open(self.path, "rb") as file:
                    data = file.read()
                self._read(data)
            except FileNotFoundError:
                pass
            except OSError as error:
                failure = error if isinstance(error, FileError) else self._bad(f"cannot read it: {error.strerror}")
        self._raise_together(failure)
        data = self._share(data)
        if data is None:
            return None
        content = self._read(data)
        for name, part in self._parts.items():
            problem: Exception | None = None
            try:
                part.load_state_dict(content[name])
            except (InvalidArgument, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
                problem = self._bad(f"cannot restore {name}: {error}")
            self._raise_together(problem)
        if self._random and "random" in content:
            set_random_state(content["random"], self.session.rank, self.session.size)
        return dict(content["values"])

    def _read(self, data: bytes) -> dict[str, Any]:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                damaged = file.testzip()
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
            raise self._bad(f"expected a {FORMAT} file; the file is damaged or of another kind ({error})") from None
        if damaged is not None:
            raise self._bad(f"the file is damaged at {damaged}")
        try:
            content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError, EOFError, AttributeError) as error:
            first = str(error).partition("\n")[0]
            raise self._bad(f"expected a {FORMAT} file; the file cannot be read: {first}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise self._bad(f"expected a {FORMAT} file; received another PyTorch file")
        if content.get("version") != VERSION:
            raise self._bad(f"expected version {VERSION}; received {content.get('version')!r}")
        for name in self._parts:
            if name not in content:
                has = ", ".join(other for other in content if other not in RESERVED)
                raise self._bad(f"expected a part named {name}; the file has {has}")
        return content

    def _bad(self, message: str) -> FileError:
        return FileError(f"[{WHERE}.load] {self.path}: {message}")

    def _raise_together(self, mine: Exception | None) -> None:
        """Raises on every rank if any rank passes an error. Collective."""
        if self.session.size == 1:
            if mine is not None:
                raise mine
            return
        known = all_gather_object(None if mine is None else (type(mine).__name__, str(mine)), session=self.session)
        if mine is not None:
            raise mine
        for rank, told in enumerate(known):
            if told is not None:
                kind = InvalidArgument if told[0] == "InvalidArgument" else FileError
                raise kind(f"{told[1]} (rank {rank})")

    def _share(self, data: bytes | None) -> bytes | None:
        """Copies the bytes of rank 0 to all ranks. Collective."""
        if self.session.size == 1:
            return data
        size = numpy.array([-1 if data is None else len(data)], numpy.int64)
        self.session.broadcast(size)
        count = int(size[0])
        if count < 0:
            return None
        words = numpy.zeros(-(-count // 4), numpy.int32)
        if data is not None:
            words.view(numpy.uint8)[:count] = numpy.frombuffer(data, numpy.uint8)
        self.session.broadcast(words)
        return words.view(numpy.uint8)[:count].tobytes()


def write_atomically(path: str, write: Callable[[Any], object]) -> None:
    """Writes a temporary file in the same folder, flushes it to disk, and then renames it to `path`."""
    folder = os.path.dirname(os.path.abspath(path))
    number, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp creates the file with mode 0600
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _plain(x: Any, path: str, where: str) -> Any:
    """Returns the state with NumPy scalars converted to Python's. Raises on values that a file cannot hold."""
    if isinstance(x, numpy.generic):
        return x.item()
    if x is None or type(x) in (bool, int, float, str, bytes) or isinstance(x, torch.Tensor):
        return x
    if type(x) in (list, tuple):
        return type(x)(_plain(one, f"{path}[{i}]", where) for i, one in enumerate(x))
    if type(x) is dict:
        return {key: _plain(one, f"{path}.{key}", where) for key, one in x.items()}
    if type(x) in (OrderedDict, Counter):
        for key, one in x.items():
            _plain(one, f"{path}.{key}", where)
        return x
    raise InvalidArgument(f"[{where}] {path}: expected tensors and plain values; received {type(x).__name__}")


def _digest(x: Any) -> str:
    """Returns a text that is equal for equal states."""
    if isinstance(x, torch.Tensor):
        return f"tensor {tuple(x.shape)} {int(fingerprint(x))}"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{key!r}: {_digest(one)}" for key, one in x.items()) + "}"
    if isinstance(x, list | tuple):
        return "[" + ", ".join(map(_digest, x)) + "]"
    return repr(x)

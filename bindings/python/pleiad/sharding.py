"""The shard of a dataset that each rank reads."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.worlds import agree, all_workers, check_count

WHERE = "Sampler"
UNEVEN = ("repeat", "drop", "keep")


class Sampler:
    """Yields the indices of the samples that this rank reads, epoch by epoch. All ranks create it with the same arguments.

        sampler = pleiad.Sampler(len(x), shuffle=True)
        for epoch in range(3):
            for rows in sampler.batches(32):       # or: for i in sampler
                params = step(params, x[rows], y[rows])

    Rank r of n reads the samples r, r + n, r + 2n, ... of the epoch's order. After each rank has read k samples, the first
    k n samples of the order are done.

    Args:
        length: number of samples of the dataset.
        shuffle: use a different order in each epoch. It depends on `seed` alone and is the same on all ranks.
        seed: seed of the order.
        uneven: what to do if `length` is not divisible by the number of ranks. "repeat": some ranks read samples from the
            beginning of the order again, as with PyTorch's DistributedSampler. "drop": the last samples are left out.
            "keep": every sample is read once, and some ranks have one sample more than others.
        session: the session to use; by default the current one.

    `state_dict` holds the position in the current epoch. A different number of ranks may load it and then share the rest of
    the epoch. If an iteration is left early, the next one starts the next epoch.

    >>> import pleiad
    >>> with pleiad.init() as s:
    ...     sampler = pleiad.Sampler(5)
    ...     print([rows.tolist() for rows in sampler.batches(2)], sampler.epoch)
    [[0, 1], [2, 3], [4]] 1
    """

    def __init__(
        self,
        length: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        uneven: str = "repeat",
        session: Session | None = None,
    ) -> None:
        self.length = check_count(length, "length", WHERE)
        if uneven not in UNEVEN:
            raise InvalidArgument(f'[{WHERE}] unknown uneven "{uneven}"; known: {", ".join(UNEVEN)}')
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidArgument(f"[{WHERE}] seed: expected an integer of at least 0; received {seed!r}")
        self.shuffle = shuffle
        self.seed = seed
        self.uneven = uneven
        self.epoch = 0
        self.position = 0  # number of samples of this epoch that all ranks together have read
        found = all_workers(session, WHERE)
        agree(found, WHERE, [f"{length} samples", f"shuffle {shuffle}", f"seed {seed}", f"uneven {uneven}"])
        if uneven == "drop" and length < found.size:
            raise InvalidArgument(f'[{WHERE}] {length} samples are too few for {found.size} ranks with uneven="drop"')
        self.rank, self._size = found.rank, found.size
        self._under_way = False

    def begin(self) -> NDArray[numpy.int64]:
        """Starts an epoch, or continues a loaded one, and returns the indices that this rank reads."""
        if self._under_way:  # the previous iteration was left early
            self.epoch += 1
            self.position = 0
        self._under_way = True
        return self._part(self.position)

    def advance(self, count: int = 1) -> None:
        """Records that this rank has read `count` samples."""
        self.position = min(self.position + count * self._size, self.length)

    def end(self) -> None:
        """Records that this rank has read all samples of the epoch."""
        self.epoch += 1
        self.position = 0
        self._under_way = False

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration. Keeps the position if it is the epoch that would come next anyway."""
        if epoch != self.epoch or self._under_way:
            self.epoch, self.position, self._under_way = epoch, 0, False

    def __iter__(self) -> Iterator[int]:
        for index in self.begin().tolist():
            self.advance()
            yield index
        self.end()

    def batches(self, batch_size: int, *, drop_last: bool = False) -> Iterator[NDArray[numpy.int64]]:
        """Yields the indices of the rest of the epoch in batches. `batch_size` is the batch size of this rank. With
        uneven="keep" the ranks may have different numbers of batches; see `pleiad.join`."""
        check_count(batch_size, "batch_size", f"{WHERE}.batches")
        for batch in cut(self.begin(), batch_size, drop_last):
            self.advance(len(batch))
            yield batch
        self.end()

    def __len__(self) -> int:
        """Returns the number of samples that this rank reads in a whole epoch."""
        return len(range(self.rank, self._even(self.length), self._size))

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the current epoch, for `load_state_dict`."""
        return {
            "length": self.length,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved position. All ranks load the same state; their number may differ from that at saving."""
        for name, mine in (("length", self.length), ("shuffle", self.shuffle)):
            if state.get(name) != mine:
                raise InvalidArgument(
                    f"[{WHERE}.load_state_dict] {name}: expected {mine}, that of this sampler; received {state.get(name)!r}"
                )
        numbers = {name: state.get(name) for name in ("seed", "epoch", "position")}
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidArgument(
                    f"[{WHERE}.load_state_dict] {name}: expected an integer of at least 0; received {value!r}"
                )
        self.seed, self.epoch, self.position = (state[name] for name in ("seed", "epoch", "position"))
        self._under_way = False
        if self.position >= self.length:
            self.end()

    def _part(self, start: int) -> NDArray[numpy.int64]:
        order = numpy.arange(self.length)
        if self.shuffle:
            order = numpy.random.default_rng([self.seed, self.epoch]).permutation(self.length)
        rest = order[start:]
        count = self._even(len(rest))
        # numpy.resize repeats the array from its beginning.
        return numpy.resize(rest if count <= len(rest) else numpy.concatenate([rest, order]), count)[
            self.rank :: self._size
        ].astype(numpy.int64)

    def _even(self, count: int) -> int:
        """Returns how many of `count` samples all ranks together read."""
        if self.uneven == "keep":
            return count
        return (count if self.uneven == "drop" else count + self._size - 1) // self._size * self._size


def cut(indices: NDArray[numpy.int64], batch_size: int, drop_last: bool) -> list[NDArray[numpy.int64]]:
    """Splits indices into batches."""
    end = len(indices) // batch_size * batch_size if drop_last else len(indices)
    return [indices[i : i + batch_size] for i in range(0, end, batch_size)]


def shard(data: Any, *, uneven: str = "repeat", session: Session | None = None) -> Any:
    """Returns this rank's shard, every n-th sample, of an array, or of a tuple, list or dict of arrays with the same number
    of samples. `uneven` is that of `Sampler`. Collective.

        x, y = pleiad.shard((x, y))
        model.fit(x, y)

    >>> import numpy, pleiad
    >>> with pleiad.init() as s:
    ...     print(pleiad.shard({"x": numpy.arange(3)}))
    {'x': array([0, 1, 2])}
    """
    parts = list(data.values()) if isinstance(data, Mapping) else data if isinstance(data, tuple | list) else [data]
    lengths = {_samples(x) for x in parts}
    if len(lengths) != 1:
        raise InvalidArgument(f"[shard] expected arrays with the same number of samples; received {sorted(lengths)}")
    rows = Sampler(lengths.pop(), uneven=uneven, session=session).begin()
    if isinstance(data, Mapping):
        return {name: x[rows] for name, x in data.items()}
    return type(data)(x[rows] for x in parts) if type(data) in (tuple, list) else data[rows]


def _samples(x: Any) -> int:
    shape: tuple[int, ...] = getattr(x, "shape", ())
    if len(shape) == 0:
        raise InvalidArgument(
            f"[shard] expected an array, or a tuple, list or dict of arrays; received {type(x).__name__}"
        )
    return int(shape[0])

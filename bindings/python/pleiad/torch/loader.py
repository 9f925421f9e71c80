"""PyTorch data loaders that give each rank its shard of the dataset."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.sharding import Sampler, cut

WHERE = "shard"
KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
)


def shard(
    data: "DataLoader[Any] | Dataset[Any]",
    *,
    shuffle: bool | None = None,
    seed: int = 0,
    uneven: str = "repeat",
    session: Session | None = None,
    **options: Any,
) -> "ShardedLoader":
    """Returns a data loader that gives each rank its shard of every epoch. Collective.

        loader = pleiad.torch.shard(DataLoader(dataset, batch_size=32, shuffle=True))
        loader = pleiad.torch.shard(dataset, batch_size=32, shuffle=True)      # the same

    Args:
        data: a DataLoader or a map-style Dataset.
        shuffle: by default as the given loader does. Each epoch has a different order, which depends on `seed` alone and is
            the same on all ranks.
        seed: seed of the order.
        uneven: what to do if the number of samples is not divisible by the number of ranks. "repeat" repeats some samples,
            as DistributedSampler does; "drop" leaves out the last ones; "keep" reads each sample once, so that ranks may
            have different numbers of batches (use `join`).
        options: options of DataLoader, if `data` is a dataset. `batch_size` is the batch size of each rank.

    `state_dict` and `load_state_dict` save and restore the position in the epoch, also with a different number of ranks.
    """
    if isinstance(data, ShardedLoader):
        raise InvalidArgument(f"[{WHERE}] the loader is sharded already; pass the DataLoader or Dataset itself")
    if isinstance(data, DataLoader):
        if options:
            raise InvalidArgument(
                f"[{WHERE}] {min(options)} cannot be changed for a DataLoader; pass the Dataset instead"
            )
        loader = data
    else:
        _check_dataset(data)
        loader = DataLoader(data, shuffle=bool(shuffle), **options)
    _check_dataset(loader.dataset)
    random = isinstance(loader.sampler, RandomSampler)
    if loader.batch_size is None:
        raise InvalidArgument(
            f"[{WHERE}] expected a loader with a batch_size; received one with a batch_sampler or without batches"
        )
    plain = isinstance(loader.sampler, SequentialSampler) or (
        random and not loader.sampler.replacement and loader.sampler.num_samples == len(loader.dataset)  # type: ignore[attr-defined, arg-type]
    )
    if not plain:
        raise InvalidArgument(
            f"[{WHERE}] expected a loader that reads each sample once per epoch; received one with a "
            f"{type(loader.sampler).__name__}, which must choose the samples of each rank itself"
        )
    return ShardedLoader(loader, random if shuffle is None else shuffle, seed, uneven, session)


def _check_dataset(data: Any) -> None:
    if isinstance(data, IterableDataset):
        raise InvalidArgument(
            f"[{WHERE}] an IterableDataset has no indices to shard; skip the samples of other ranks in its __iter__ by session.rank"
        )
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise InvalidArgument(f"[{WHERE}] expected a DataLoader or a Dataset; received {type(data).__name__}")


class ShardedLoader:
    """The data loader that `shard` returns. Other attributes are those of the PyTorch loader, `loader`."""

    def __init__(
        self, loader: "DataLoader[Any]", shuffle: bool, seed: int, uneven: str, session: Session | None
    ) -> None:
        assert loader.batch_size is not None
        self.sampler = Sampler(
            len(loader.dataset),  # type: ignore[arg-type]
            shuffle=shuffle,
            seed=seed,
            uneven=uneven,
            session=session,
        )
        self.batch_size = loader.batch_size
        self.drop_last = loader.drop_last
        self._batches: list[list[int]] = []  # indices of the batches of the current epoch
        kept = {name: getattr(loader, name) for name in KEPT if hasattr(loader, name)}
        # The loader draws the seeds of its workers. If it drew them from PyTorch's global generator, a resumed epoch would
        # draw once more, and all random numbers after it would differ from those of an uninterrupted run.
        self._seeds: torch.Generator | None = None
        if kept["generator"] is None:
            kept["generator"] = self._seeds = torch.Generator()
        self.loader: DataLoader[Any] = DataLoader(loader.dataset, batch_sampler=_Batches(self._batches), **kept)

    def __iter__(self) -> Iterator[Any]:
        sampler = self.sampler
        self._batches[:] = [x.tolist() for x in cut(sampler.begin(), self.batch_size, self.drop_last)]
        if self._seeds is not None:
            entropy = numpy.random.SeedSequence([sampler.seed, sampler.epoch, sampler.rank])
            self._seeds.manual_seed(int(entropy.generate_state(1)[0]))
        # The position advances here and not in the sampler, because the workers of the loader read ahead.
        for size, batch in zip([len(x) for x in self._batches], self.loader, strict=True):
            sampler.advance(size)
            yield batch
        sampler.end()

    def __len__(self) -> int:
        """Returns the number of batches of a whole epoch on this rank."""
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration. Without a call, each iteration starts the next epoch."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the current epoch, for `load_state_dict`."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved position. All ranks load the same state; their number may differ from that at saving."""
        self.sampler.load_state_dict(state)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


class _Batches(torch.utils.data.Sampler[list[int]]):
    def __init__(self, batches: list[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter(list(self._batches))

    def __len__(self) -> int:
        return len(self._batches)

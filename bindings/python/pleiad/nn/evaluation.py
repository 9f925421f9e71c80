"""Averages of the metrics over samples, on all ranks together."""

from typing import TYPE_CHECKING

from pleiad.errors import InvalidArgument
from pleiad.nn.data import Dataset, Source
from pleiad.nn.indexed import Indexed
from pleiad.nn.stores import StoreSamples
from pleiad.nn.stream import Batches, Stream

if TYPE_CHECKING:
    from pleiad.nn.trainer import Trainer


def evaluate(trainer: "Trainer", data: Source, phase: str) -> tuple[dict[str, float], int]:
    """Returns the averages of the metrics, and the number of samples."""
    if not isinstance(data, Stream):
        return _of_samples(trainer, data, phase), len(data)
    sums: dict[str, float] = {}
    count = 0
    batches = Batches(data, trainer.batch * max(1, 4096 // trainer.batch), complete=False)
    while (batch := batches.next()) is not None:
        arrays, weights = batch
        part = Dataset(trainer.net, arrays, shuffle=False, sample_weight=weights)
        if trainer._together and len(part) < trainer.batch:
            break
        for name, value in _of_samples(trainer, part, phase).items():
            sums[name] = sums.get(name, 0.0) + value * len(part)
        count += len(part)
    if count == 0:
        raise InvalidArgument(f"x ({data.what}): expected samples to evaluate; received none")
    return {name: value / count for name, value in sums.items()}, count


def _of_samples(trainer: "Trainer", data: "Dataset | StoreSamples | Indexed", phase: str) -> dict[str, float]:
    rank, ranks, count = trainer._core.share, trainer._core.shares, len(data)
    if ranks < trainer._core.ranks and count % ranks:  # the ranks of a group that splits images must stay in step
        rank, ranks = 0, 1
    elif trainer._together and ranks == trainer._core.ranks:
        return dict(trainer._core.evaluate_together(data._core, phase))
    first, end = count * rank // ranks, count * (rank + 1) // ranks
    # A rank without samples evaluates one with weight 0, to learn the names of the metrics.
    sums = dict(trainer._core.evaluate(data._core, phase, first if end > first else 0, max(end - first, 1)))
    weight = 1 if end > first else 0
    total = [each * ranks / trainer._core.ranks for each in trainer._sum([value * weight for value in sums.values()])]
    return {name: value / count for name, value in zip(sums, total, strict=True)}

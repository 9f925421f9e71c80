"""The history of a run: one record per epoch, or every N steps."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pleiad.errors import InvalidArgument


@dataclass
class Record:
    """Metrics averaged over the steps since the last record (phase "train") or over a dataset ("validate", "test")."""

    epoch: int
    step: int
    phase: str
    metrics: dict[str, float]
    seconds: float = 0  # time since the start of the run
    samples_per_second: float = 0

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def text(self) -> str:
        """Returns the record as one line for a log."""
        words = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"epoch {self.epoch}, step {self.step}, {self.phase}: {words}, {self.samples_per_second:,.0f} samples/s"


@dataclass
class History:
    """The records of a trainer, oldest first. `history["loss"]` is the list of training losses, `history["val_loss"]` that
    of validation losses.

    >>> from pleiad import nn
    >>> history = nn.History([nn.Record(1, 10, "train", {"loss": 0.5}), nn.Record(1, 10, "validate", {"loss": 0.7})])
    >>> history["loss"], history["val_loss"], history.names
    ([0.5], [0.7], ['loss', 'val_loss'])
    """

    records: list[Record] = field(default_factory=list)

    def of(self, phase: str) -> list[Record]:
        """Returns the records of one phase: "train", "validate" or "test"."""
        return [record for record in self.records if record.phase == phase]

    @property
    def names(self) -> list[str]:
        """The names that `history[name]` accepts."""
        return list(dict.fromkeys(_prefix(record.phase) + name for record in self.records for name in record.metrics))

    def points(self, name: str) -> list[tuple[int, float]]:
        """Returns (step, value) of each record that has the metric."""
        if name not in self.names:
            raise InvalidArgument(f'the history has no "{name}"; known: {", ".join(self.names) or "nothing yet"}')
        return [
            (record.step, record.metrics[bare])
            for record in self.records
            if name.startswith(prefix := _prefix(record.phase)) and (bare := name[len(prefix) :]) in record.metrics
        ]

    def __getitem__(self, name: str) -> list[float]:
        return [value for _, value in self.points(name)]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def history(self) -> dict[str, list[float]]:
        """All metrics as a dict of lists, as in Keras."""
        return {name: self[name] for name in self.names}

    def write_csv(self, path: "str | Path") -> None:
        """Writes one row per record."""
        metrics = list(dict.fromkeys(name for record in self.records for name in record.metrics))
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["epoch", "step", "phase", "seconds", "samples_per_second", *metrics])
            for r in self.records:
                values = [r.metrics.get(name, "") for name in metrics]
                rows.writerow([r.epoch, r.step, r.phase, f"{r.seconds:.3f}", f"{r.samples_per_second:.1f}", *values])

    def plot(self, path: "str | Path | None" = None) -> Any:
        """Plots a panel per metric (`pleiad.nn.plot.curves`)."""
        from pleiad.nn import plot

        return plot.curves(self, path)


def _prefix(phase: str) -> str:
    return {"train": "", "validate": "val_"}.get(phase, phase + "_")

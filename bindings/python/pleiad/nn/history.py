"""What a run has told: one record an epoch, or every so many steps."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pleiad.errors import InvalidArgument


@dataclass
class Record:
    """Averages over the steps since the last record (phase "train"), or over a whole set ("validate", "test")."""

    epoch: int
    step: int
    phase: str
    metrics: dict[str, float]
    seconds: float = 0  # since the run began
    samples_per_second: float = 0

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def text(self) -> str:
        """One line for a log."""
        words = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"epoch {self.epoch}, step {self.step}, {self.phase}: {words}, {self.samples_per_second:,.0f} samples/s"


@dataclass
class History:
    """The records of a trainer, oldest first. `history["loss"]` are the losses of training, `history["val_loss"]` those
    of validation.

    >>> from pleiad import nn
    >>> history = nn.History([nn.Record(1, 10, "train", {"loss": 0.5}), nn.Record(1, 10, "validate", {"loss": 0.7})])
    >>> history["loss"], history["val_loss"], history.names
    ([0.5], [0.7], ['loss', 'val_loss'])
    """

    records: list[Record] = field(default_factory=list)

    def of(self, phase: str) -> list[Record]:
        return [record for record in self.records if record.phase == phase]

    @property
    def names(self) -> list[str]:
        """What `history[...]` knows."""
        return list(dict.fromkeys(_prefix(record.phase) + name for record in self.records for name in record.metrics))

    def points(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of each record that has it."""
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
        """All of it, as Keras has it."""
        return {name: self[name] for name in self.names}

    def write_csv(self, path: "str | Path") -> None:
        """One row a record."""
        metrics = list(dict.fromkeys(name for record in self.records for name in record.metrics))
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["epoch", "step", "phase", "seconds", "samples_per_second", *metrics])
            for r in self.records:
                values = [r.metrics.get(name, "") for name in metrics]
                rows.writerow([r.epoch, r.step, r.phase, f"{r.seconds:.3f}", f"{r.samples_per_second:.1f}", *values])

    def plot(self, path: "str | Path | None" = None) -> Any:
        """The curves of every metric (`pleiad.nn.plot.curves`)."""
        from pleiad.nn import plot

        return plot.curves(self, path)


def _prefix(phase: str) -> str:
    return {"train": "", "validate": "val_"}.get(phase, phase + "_")

"""A callback that keeps the best state of a run on disk."""

import json
import os
from pathlib import Path
from typing import Any

from pleiad.nn.callbacks import Callback
from pleiad.nn.history import Record
from pleiad.nn.monitor import Mode, Monitor


class KeepBest(Callback):
    """Saves the trainer in a folder whenever a metric improves: `trainer.load(folder)` or `nn.load_net(folder)` has the best
    state afterwards. The folder holds one complete state at any time. All ranks need it, with the same options, and must see
    the folder.

    Args:
        folder: the folder; `folder.json` has the step and the metric. A trainer that was resumed replaces the state only by
            a better one.
        monitor: the metric to watch; "val_loss" is the loss on the validation data.
        min_delta: the least change that counts as an improvement.
        mode: "min", "max", or "auto", which maximises accuracies and minimises other metrics.
    """

    def __init__(
        self,
        folder: "str | os.PathLike[str]",
        monitor: str = "val_loss",
        *,
        min_delta: float = 0,
        mode: Mode = "auto",
    ) -> None:
        self.folder = os.fspath(folder)
        self._monitor = Monitor("KeepBest", monitor, min_delta, mode)
        self.best: float | None = None
        self.best_step = 0

    def same_on_all_ranks(self) -> dict[str, Any]:
        return {"folder": self.folder, **self._monitor.options()}

    def check(self, validates: bool) -> None:
        self._monitor.check(validates)

    def on_begin(self, epochs: int, steps_per_epoch: int) -> None:
        self.best, self.best_step = None, 0
        kept = [0.0, 0.0, 0.0]
        if self.trainer.step_number > 0 and self.trainer.rank == 0 and self._file.exists():
            words = json.loads(self._file.read_text())
            if words["monitor"] == self._monitor.name:
                kept = [1.0, float(words["step"]), float(words["value"])]
        found, step, value = self.trainer._sum(kept)
        if found:
            self.best, self.best_step = value, int(step)

    def on_record(self, record: Record) -> None:
        value = self._monitor.value(record)
        if value is None or not self._monitor.improves(value, self.best):
            return
        self.best, self.best_step = value, record.step
        self.trainer.save(self.folder)
        if self.trainer.rank == 0:
            words = {"monitor": self._monitor.name, "step": record.step, "value": value}
            self._file.write_text(json.dumps(words) + "\n")

    @property
    def _file(self) -> Path:
        return Path(self.folder + ".json")

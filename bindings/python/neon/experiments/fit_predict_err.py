"""Training, predictions, and how wrong they are."""

from pathlib import Path
from typing import Any

import numpy

from neon.experiments.fit import FitExperiment
from neon.metrics import Metric, MisclassPercentage
from neon.util.distarray.global_array import comm
from pleiad.errors import FileError, InvalidArgument


class FitPredictErrorExperiment(FitExperiment):
    """metrics: {train: [...], test: [...]}, or the misclassified per cent of both. predictions: a file for the test set's
    classes, a line a sample: the predicted one and the right one."""

    fields = {"predictions": "", "inference_sets": ["train", "test"]}

    predictions: str

    def work(self) -> "dict[str, float]":
        results = super().work()
        wanted: Any = self.metrics or {name: [MisclassPercentage()] for name in ("train", "test")}  # type: ignore[attr-defined]
        if not isinstance(wanted, dict) or not set(wanted) <= {"train", "test", "validation"}:
            raise InvalidArgument(f"metrics: expected {{train: [...], test: [...]}}; received {wanted!r}")
        for name, metrics in wanted.items():
            if name not in self.dataset.inputs:
                continue
            outputs, targets = self.model.predict(self.dataset, name), self.dataset.targets[name]
            for metric in metrics:
                if not isinstance(metric, Metric):
                    raise InvalidArgument(f"metrics: expected metrics; received {metric!r}")
                key = f"{name} {type(metric).__name__}"
                results[key] = metric(outputs, targets)
                if comm.rank == 0:
                    print(f"{key}: {results[key]:.6g}", flush=True)
            if name == "test" and self.predictions and comm.rank == 0:
                self._write(outputs.argmax(axis=1), targets)
        return results

    def _write(self, classes: Any, targets: Any) -> None:
        path = Path(self.predictions).expanduser()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            numpy.savetxt(path, numpy.stack([classes, targets], axis=1), "%d", header="predicted right")
        except OSError as problem:
            raise FileError(f"{path}: cannot be written: {problem}") from None

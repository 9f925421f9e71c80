"""An experiment that trains, predicts and measures the error."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from neon.experiments.fit import FitExperiment
from neon.metrics import MSE, Metric, MisclassPercentage
from neon.util.distarray.global_array import comm
from neon.util.registry import FieldError
from neon.util.together import together
from pleiad.errors import FileError


class FitPredictErrorExperiment(FitExperiment):
    """Trains a model and computes metrics. metrics: {train: [...], test: [...]}, by default the misclassified percentage of both,
    or the mean squared error of a model that reconstructs its inputs. predictions: file for the classes of the test set, with
    the predicted and the true class of a sample per line."""

    fields = {"predictions": "", "metrics": None}

    predictions: str
    metrics: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        usual: Metric = MSE() if getattr(self.model, "reconstructs", False) else MisclassPercentage()
        wanted: Any = self.metrics or {name: [usual] for name in ("train", "test")}
        if not isinstance(wanted, dict) or not set(wanted) <= {"train", "test"}:
            raise FieldError("metrics", f"metrics: expected {{train: [...], test: [...]}}; received {wanted!r}")
        for name, metrics in wanted.items():
            bad = (
                [each for each in metrics if not isinstance(each, Metric)]
                if isinstance(metrics, list | tuple)
                else [metrics]
            )
            if bad:
                raise FieldError("metrics", f"metrics: {name}: expected a list of metrics; received {bad[0]!r}")
        self.metrics = wanted

    def work(self) -> "dict[str, float]":
        if self.predictions:  # checked before hours of training
            if "test" not in self.metrics:
                self.refuse("predictions", "they are those of the test set, and metrics has no test")
            if getattr(self.model, "reconstructs", False):
                self.refuse("predictions", f"{type(self.model).__name__} predicts no classes")
            together(partial(self._write, "a", ()))
        results = super().work()
        for name, metrics in self.metrics.items():
            if name not in self.dataset.inputs:
                continue
            outputs, targets = self.model.predict(self.dataset, name), self.dataset.targets[name]
            if getattr(self.model, "reconstructs", False):
                targets = self.dataset.inputs[name].reshape(outputs.shape)
            for metric in metrics:
                key = f"{name} {type(metric).__name__}"
                results[key] = metric(outputs, targets)
                if comm.rank == 0:
                    print(f"{key}: {results[key]:.6g}", flush=True)
            if name == "test" and self.predictions:
                rows = [
                    f"{int(predicted)} {int(right)}\n"
                    for predicted, right in zip(outputs.argmax(axis=1), targets, strict=True)
                ]
                together(partial(self._write, "w", ("# predicted right\n", *rows)))
        return results

    def _write(self, mode: str, lines: "Sequence[str]") -> None:
        if comm.rank != 0:
            return
        path = Path(self.predictions).expanduser()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(mode) as file:
                file.writelines(lines)
        except OSError as problem:
            raise FileError(f"{path}: cannot write the file: {problem}") from None

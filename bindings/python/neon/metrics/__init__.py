"""Metrics that compare predictions (samples, classes) with labels or targets."""

from typing import Any

import numpy

from neon.util.registry import Component


def _labels(targets: Any) -> Any:
    targets = numpy.asarray(targets)
    return targets if targets.ndim == 1 else targets.argmax(axis=1)


class Metric(Component):
    def __call__(self, outputs: Any, targets: Any) -> float:
        raise NotImplementedError


class MisclassSum(Metric):
    fields = {"error_rank": 1}

    def __call__(self, outputs: Any, targets: Any) -> float:
        rank: int = self.error_rank  # type: ignore[attr-defined]
        order: Any = numpy.argsort(-numpy.asarray(outputs), axis=1, kind="stable")[:, :rank]
        return float((order != _labels(targets)[:, None]).all(axis=1).sum())


class MisclassRate(MisclassSum):
    def __call__(self, outputs: Any, targets: Any) -> float:
        return super().__call__(outputs, targets) / len(outputs)


class MisclassPercentage(MisclassRate):
    def __call__(self, outputs: Any, targets: Any) -> float:
        return 100 * super().__call__(outputs, targets)


class LogLossSum(Metric):
    fields = {"eps": 1e-15}

    def __call__(self, outputs: Any, targets: Any) -> float:
        shares = numpy.clip(numpy.asarray(outputs, float), self.eps, 1)  # type: ignore[attr-defined]
        shares = shares / shares.sum(axis=1, keepdims=True)
        return float(-numpy.log(shares[numpy.arange(len(shares)), _labels(targets)]).sum())


class LogLossMean(LogLossSum):
    def __call__(self, outputs: Any, targets: Any) -> float:
        return super().__call__(outputs, targets) / len(outputs)


class SSE(Metric):
    def __call__(self, outputs: Any, targets: Any) -> float:
        return float(((numpy.asarray(outputs, float) - numpy.asarray(targets, float)) ** 2).sum())


class MSE(SSE):
    def __call__(self, outputs: Any, targets: Any) -> float:
        return super().__call__(outputs, targets) / numpy.size(targets)


class AUC(Metric):
    """Area under the ROC curve of two classes: the fraction of pairs in the right order."""

    def __call__(self, outputs: Any, targets: Any) -> float:
        scores = numpy.asarray(outputs, float)
        scores = scores if scores.ndim == 1 else scores[:, -1]
        right = _labels(targets) == 1
        both, place, count = numpy.unique(scores, return_inverse=True, return_counts=True)
        ranks = (numpy.cumsum(count) - (count - 1) / 2)[place]
        ones, zeros = right.sum(), (~right).sum()
        return float((ranks[right].sum() - ones * (ones + 1) / 2) / max(ones * zeros, 1))


__all__ = [
    "AUC",
    "MSE",
    "SSE",
    "LogLossMean",
    "LogLossSum",
    "Metric",
    "MisclassPercentage",
    "MisclassRate",
    "MisclassSum",
]

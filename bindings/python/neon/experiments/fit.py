"""Training alone."""

from typing import Any

import pleiad
from neon.datasets.dataset import Dataset
from neon.models.model import Model
from neon.util.registry import Component
from pleiad.errors import InvalidArgument


class FitExperiment(Component):
    """backend, model, and dataset (or datasets, a list of one)."""

    fields = {
        "dist_flag": False,
        "backend": None,
        "model": None,
        "dataset": None,
        "datasets": [],
        "logging": None,
        "metrics": None,
    }
    ignored = frozenset({"live", "save_path", "diagnostics"})

    model: Any
    dataset: Any
    datasets: Any
    backend: Any

    verbose = False  #: print the net before training

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        found = [each for each in [self.dataset, *self.datasets] if each is not None]
        if len(found) != 1 or not isinstance(found[0], Dataset):
            raise InvalidArgument(f"dataset: expected one data set; received {found!r}")
        if not isinstance(self.model, Model):
            raise InvalidArgument(f"model: expected a model; received {self.model!r}")
        self.dataset = found[0]
        self.dataset.dist_flag = self.dataset.dist_flag or self.dist_flag

    def initialize(self) -> None:
        """Hands the back end down where a file has it once."""
        for each in (self.model, self.dataset, *self.model.layers):
            each.backend = each.backend or self.backend
        self.model.verbose = self.verbose

    def run(self) -> "dict[str, float]":
        """Under a launcher the ranks run it together. Returns results by name."""
        own = pleiad.sessions._current is None
        session = pleiad.init() if own else pleiad.session()
        try:
            self.initialize()
            results = self.work()
        except BaseException:
            if own:
                session.leave()
            raise
        if own:
            session.shutdown()
        return results

    def work(self) -> "dict[str, float]":
        self.model.fit(self.dataset)
        return {"cost": self.model.costs[-1]} if self.model.costs else {}

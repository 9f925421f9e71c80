"""An experiment that only trains."""

import logging
import sys
from typing import Any

import pleiad
from neon.backends import Backend
from neon.datasets.dataset import Dataset
from neon.models.model import Model
from neon.util.distarray.global_array import comm
from neon.util.registry import Component, FieldError
from neon.util.together import together


class FitExperiment(Component):
    """Trains a model. It has backend, model, and dataset (or datasets, a list of one). logging: {level, format, datefmt,
    filename} of Python's logging, which user-defined classes may use."""

    fields = {
        "dist_flag": False,
        "backend": None,
        "model": None,
        "dataset": None,
        "datasets": [],
        "logging": None,
    }

    logging: Any
    model: Any
    dataset: Any
    datasets: Any
    backend: Any

    verbose = False  #: print the net before training

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        given_sets = self.datasets if isinstance(self.datasets, list | tuple) else [self.datasets]
        found = [each for each in [self.dataset, *given_sets] if each is not None]
        if len(found) != 1 or not isinstance(found[0], Dataset):
            raise FieldError(
                "datasets" if "datasets" in self.given else "dataset",
                f"dataset: expected one data set; received {len(found)}: {found!r}",
            )
        if not isinstance(self.model, Model):
            raise FieldError("model", f"model: expected a model; received {self.model!r}")
        if self.backend is not None and not isinstance(self.backend, Backend):
            self.refuse("backend", f"expected a back end; received {self.backend!r}")
        self.dataset = found[0]
        self.dataset.dist_flag = self.dataset.dist_flag or self.dist_flag
        self._logging: dict[str, Any] = {}
        if self.logging is not None:
            self._logging = self.only("logging", self.logging, ("level", "format", "datefmt", "filename"))

    def initialize(self) -> None:
        """Passes the back end to the model and the dataset if the file states it only once."""
        for each in (self.model, self.dataset, *self.model.layers):
            if each.backend is not None and self.backend is not None and each.backend is not self.backend:
                each.refuse("backend", "the experiment has another back end")
            each.backend = each.backend or self.backend
        self.model.verbose = self.verbose
        backend = self.model.backend
        if backend is not None and backend.notice and comm.rank == 0:
            print(f"neon: {backend.notice}", file=sys.stderr, flush=True)
        if self._logging:
            try:
                logging.basicConfig(**self._logging)
            except (ValueError, TypeError, OSError) as problem:
                self.refuse("logging", str(problem))

    def run(self) -> "dict[str, float]":
        """Runs the experiment, on all ranks if there is a launcher. Returns results by name."""
        own = pleiad.sessions._current is None
        session = pleiad.init() if own else pleiad.session()
        try:
            together(self.initialize)
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

"""What models have in common."""

from typing import Any

from neon.layers.base import Layer
from neon.layers.simple import CostLayer, DataLayer
from neon.transforms import Cost, CrossEntropy
from neon.util.distarray.global_array import comm
from neon.util.registry import Component
from pleiad.errors import InvalidArgument


class Model(Component):
    """layers, in order; cost: unless a CostLayer has it. Epochs, batch_size (of all ranks together), learning_rate and
    momentum, or a rule in lrule_init. serialized_path: a folder where the model is saved when it has learnt;
    deserialized_path: one from which training goes on, whatever number of ranks wrote it."""

    fields = {
        "layers": [],
        "cost": None,
        "num_epochs": 1,
        "batch_size": 100,
        "learning_rate": None,
        "momentum": None,
        "lrule_init": None,
        "dist_flag": False,
        "grid": "",
        "backend": None,
        "serialized_path": "",
        "deserialized_path": "",
    }
    ignored = frozenset({"dist_mode", "name", "loss", "accumulate", "reuse_deltas"})

    layers: "list[Layer]"
    num_epochs: int
    batch_size: int
    learning_rate: Any
    momentum: Any
    lrule_init: Any
    grid: str
    backend: Any
    cost: Any
    serialized_path: str
    deserialized_path: str
    verbose = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        bad = [each for each in self.layers if not isinstance(each, Layer)]
        if bad or not self.layers:
            raise InvalidArgument(f"layers: expected a list of layers; received {bad[0] if bad else self.layers!r}")
        costs = [each.cost for each in self.layers if isinstance(each, CostLayer)]  # type: ignore[attr-defined]
        self.cost = self.cost or (costs[0] if costs else None) or CrossEntropy()
        if not isinstance(self.cost, Cost):
            raise InvalidArgument(f"cost: expected a cost; received {self.cost!r}")
        for place, layer in enumerate(self.layers):
            layer.name = layer.name or f"layer{place}"
            layer.batch_size = layer.batch_size or self.batch_size
            layer.backend = layer.backend or self.backend
        names = [layer.name for layer in self.layers]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InvalidArgument(f'two layers are named "{twice[0]}"')

    @property
    def computing(self) -> "list[Layer]":
        """The layers that compute."""
        return [layer for layer in self.layers if not isinstance(layer, CostLayer | DataLayer)]

    def rule_words(self) -> Any:
        """lrule_init: the model's, else the first layer's that has one."""
        found = [getattr(layer, "lrule_init", None) for layer in self.layers]
        return self.lrule_init or next((each for each in found if each), None)

    def rate_words(self) -> Any:
        found = [getattr(layer, "learning_rate", None) for layer in self.layers]
        return (
            self.learning_rate
            if self.learning_rate is not None
            else next((each for each in found if each is not None), None)
        )

    @property
    def ranks(self) -> int:
        return comm.size

    def fit(self, dataset: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.fit")

    def predict(self, dataset: Any, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.predict")

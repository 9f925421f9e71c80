"""The common part of models: their fields, the checks of their layers, and their learning rule."""

from dataclasses import replace
from typing import Any

import numpy

from neon.layers.base import Layer, WeightLayer
from neon.layers.simple import CostLayer, DataLayer
from neon.params import Rule, momentum_of, rate_of, rule_of
from neon.transforms import Cost, CrossEntropy
from neon.util.distarray.global_array import comm
from neon.util.registry import Component, FieldError
from pleiad.errors import InvalidArgument


class Model(Component):
    """Base class of models. layers: in order. cost: unless a CostLayer has it. num_epochs, batch_size (of all ranks together),
    learning_rate and momentum, or a rule in lrule_init. serialized_path: folder in which the trained model is saved.
    deserialized_path: folder from which training continues; any number of ranks may have written it."""

    fields = {
        "name": "",
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
        "temp_dtype": None,
    }

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
    temp_dtype: Any
    verbose = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        bad = [each for each in self.layers if not isinstance(each, Layer)] if isinstance(self.layers, list) else [0]
        if bad or not self.layers:
            raise FieldError(
                "layers", f"layers: expected a list of layers; received {bad[0] if bad else self.layers!r}"
            )
        if self.num_epochs < 0:
            self.refuse("num_epochs", f"expected 0 or more; received {self.num_epochs}")
        if self.batch_size < 1:
            self.refuse("batch_size", f"expected 1 or more; received {self.batch_size}")
        costs = [each for each in self.layers if isinstance(each, CostLayer)]
        if self.cost is not None and costs:
            self.refuse("cost", f'the CostLayer "{costs[0].name}" also has a cost; remove one of them')
        self.cost = self.cost or (costs[0].cost if costs else None) or CrossEntropy()
        if not isinstance(self.cost, Cost):
            self.refuse("cost", f"expected a cost; received {self.cost!r}")
        self._expect_layers()

    def _expect_layers(self) -> None:
        """Checks the names of the layers, and the values of the model that they repeat."""
        before = None
        for place, layer in enumerate(self.layers):
            layer.name = layer.name or f"layer{place}"
            if "batch_size" in layer.given and layer.batch_size != self.batch_size:
                layer.refuse("batch_size", f"the model has {self.batch_size}; received {layer.batch_size}")
            if "pos" in layer.given and layer.pos != place:
                layer.refuse("pos", f"expected {place}, the position in the list; received {layer.pos}")
            if layer.prev_layer and (before is None or layer.prev_layer != before.name):
                layer.refuse("prev_layer", f"expected {before.name if before else 'none'!r}, the previous layer")
            layer.batch_size, layer.pos = self.batch_size, place
            if "backend" in layer.given and self.backend is not None and layer.backend is not self.backend:
                layer.refuse("backend", "expected the back end of the model")
            before = layer
            if isinstance(layer, DataLayer) and place != 0:
                raise InvalidArgument(f'layer "{layer.name}": a data layer must be the first layer')
            if isinstance(layer, CostLayer) and layer is not self.layers[-1]:
                raise InvalidArgument(f'layer "{layer.name}": a cost layer must be the last layer')
        names = [layer.name for layer in self.layers]
        for layer in self.layers:
            if names.count(layer.name) > 1:
                layer.refuse("name", f'two layers are named "{layer.name}"')
            if isinstance(layer, CostLayer) and layer.ref_layer and layer.ref_layer != names[0]:
                layer.refuse("ref_layer", f'the targets are those of the data layer "{names[0]}"')
        if not self.computing:
            raise FieldError("layers", "layers: expected a layer that computes")

    @property
    def computing(self) -> "list[Layer]":
        """The layers that compute."""
        return [layer for layer in self.layers if not isinstance(layer, CostLayer | DataLayer)]

    @property
    def seed(self) -> int:
        return int(self.backend.seed) if self.backend is not None else 0

    @property
    def dtype(self) -> Any:
        return self.backend.element if self.backend is not None else numpy.dtype("float32")

    @property
    def deterministic(self) -> bool:
        return self.backend is not None and bool(self.backend.deterministic)

    def rule(self) -> "tuple[Rule, dict[str, float]]":
        """Returns the rule of all layers, and for each trained layer its learning rate as a multiple of the rule's."""
        if self.temp_dtype is not None and str(self.temp_dtype).rpartition(".")[2] != self.dtype.name:
            self.refuse("temp_dtype", f"the back end computes in {self.dtype.name}; received {self.temp_dtype!r}")
        learning = [layer for layer in self.computing if isinstance(layer, WeightLayer)]
        mine = self._own_rule()
        if mine is None and not learning:
            return Rule(), {}
        found: list[Rule] = []
        for layer in learning:
            own = rule_of(layer, layer.lrule_init) if layer.lrule_init is not None else None
            if own is not None and layer.learning_rate is not None:
                layer.refuse("learning_rate", "lrule_init also has a learning rate; remove one of them")
            if own is None:
                own = mine or Rule(momentum=momentum_of(self, "momentum", self.momentum))
                if layer.learning_rate is not None:
                    if own.kind == "adadelta":
                        layer.refuse("learning_rate", "adadelta has no learning rate")
                    own = replace(own, rate=rate_of(layer, "learning_rate", layer.learning_rate))
            found.append(own)
        shared = mine or found[0]
        for layer, own in zip(learning, found, strict=True):
            if own.but_rate() != shared.but_rate():
                layer.refuse("lrule_init", "all layers of a model must have the same rule; only their rates may differ")
        base = next((rule for rule in [shared, *found] if rule.rate > 0), shared)
        scales = {
            layer.name: own.rate / base.rate if base.rate else 1.0 for layer, own in zip(learning, found, strict=True)
        }
        return base, scales

    def _own_rule(self) -> "Rule | None":
        """Returns the rule of the model itself, or None if it has none."""
        if self.lrule_init is not None:
            for field in ("learning_rate", "momentum"):
                if getattr(self, field) is not None:
                    self.refuse(field, "lrule_init also has the rule; remove one of them")
            return rule_of(self, self.lrule_init)
        has_rules = any(getattr(layer, "lrule_init", None) is not None for layer in self.layers)
        if self.momentum is not None and has_rules:
            self.refuse("momentum", "the layers also have an lrule_init; remove one of them")
        if self.learning_rate is None:
            return None
        return Rule(
            rate=rate_of(self, "learning_rate", self.learning_rate),
            momentum=momentum_of(self, "momentum", self.momentum),
        )

    @property
    def ranks(self) -> int:
        return comm.size

    def fit(self, dataset: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.fit")

    def predict(self, dataset: Any, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.predict")

"""A restricted Boltzmann machine, and a stack of them."""

from pathlib import Path
from typing import Any

import numpy

from neon.layers.dense import RBMLayer
from neon.models.autoencoder import Reconstructing
from neon.models.convnet import Array
from neon.transforms import CrossEntropy, Logistic, SumSquaredDiffs
from neon.util.together import together
from pleiad import nn


class DBN(Reconstructing):
    """A deep belief network. layers: RBMLayers. Each machine is trained for num_epochs on the hidden units of the one below, by
    contrastive divergence: hidden units are sampled once; the reconstruction and its hidden units are probabilities. The cost of
    an epoch is that of the reconstruction: half the squared distance. CrossEntropy is computed after the epoch."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if "cost" not in self.given:
            self.cost = SumSquaredDiffs()
        if type(self.cost) not in (CrossEntropy, SumSquaredDiffs):
            self.refuse("cost", f"expected SumSquaredDiffs or CrossEntropy; received {type(self.cost).__name__}")
        if self.cost.scale != 1:
            self.cost.refuse("scale", "the cost of an RBM cannot be scaled; remove it")
        for layer in self.computing:
            if not isinstance(layer, RBMLayer):
                layer.refuse("name", f"expected an RBMLayer; received a {type(layer).__name__}")
            if "activation" in layer.given and not isinstance(layer.activation, Logistic):
                layer.refuse("activation", "expected Logistic units in an RBM")
        #: The mean cost of each epoch, by machine.
        self.machine_costs: list[list[float]] = []

    def _train(self, dataset: Any) -> None:
        together(lambda: self._check(dataset))
        self.learned: dict[str, Array] = {}
        for index in range(len(self.computing)):
            self._train_machine(dataset, index)

    def _check(self, dataset: Any) -> None:
        shape = self.input_shape(dataset)
        for layer in self.computing:
            layer.expect_input(shape)
            assert isinstance(layer, RBMLayer)
            if layer.units() < 1:
                layer.refuse("nout", f"expected the hidden units and a bias, 2 or more; received {layer.nout}")
            shape = (layer.units(),)

    def machine(self, dataset: Any, index: int) -> nn.Net:
        """Returns the net that trains machine `index`, on top of the lower ones, which are fixed."""
        net = nn.Net(self.computing[index].name, dtype=self.dtype, seed=self.seed)
        value = net.input(self.input_shape(dataset), name="x")
        for layer in self.computing[:index]:
            assert isinstance(layer, RBMLayer)
            value = net.add(nn.Dense(layer.units(), "sigmoid", name=f"{layer.name}.hidden"), value)
        for name in net.parameters:
            net.fix(name)
        top = self.computing[index]
        assert isinstance(top, RBMLayer)
        wish = nn.Param(top.weight(), rate_scale=self.rule()[1].get(top.name, 1.0))
        net.add(nn.RBM(top.units(), weight=wish, hidden_bias=wish, visible_bias=wish, name=top.name), value)
        for layer in self.computing[:index]:
            net.parameters[f"{layer.name}.hidden/weight"][...] = self.learned[f"{layer.name}/weight"]
            net.parameters[f"{layer.name}.hidden/bias"][...] = self.learned[f"{layer.name}/hidden_bias"]
        return net

    def _train_machine(self, dataset: Any, index: int) -> None:
        net = together(lambda: self.machine(dataset, index))
        rule, _ = self.rule()
        steps, name = self._steps(dataset), self.computing[index].name
        self.trainer = self.trainer_of(net, rule, dataset, **rule.schedules(self.num_epochs, steps))
        samples = nn.Dataset(net, {"x": self.inputs_of(dataset, "train")}, seed=self.seed)
        if self.deserialized_path:
            self.trainer.load(self.folder(self.deserialized_path, name))
        self.machine_costs.append([])
        for epoch in range(self.trainer.step_number // steps, self.num_epochs):
            self._epoch(samples, epoch + 1)
            self.machine_costs[-1].append(self.costs[-1])
        self._keep(net, name)
        if self.serialized_path:
            self.trainer.save(self.folder(self.serialized_path, name))

    def _keep(self, net: nn.Net, name: str) -> None:
        for kind in ("weight", "hidden_bias", "visible_bias"):
            self.learned[f"{name}/{kind}"] = net.parameters[f"{name}/{kind}"].copy()

    def _epoch(self, samples: Any, number: int) -> None:
        assert self.trainer is not None
        if not isinstance(self.cost, CrossEntropy):
            super()._epoch(samples, number)
            return
        self.trainer.fit(samples, epochs=1, drop_last=True, progress=False)
        net = self.trainer.net
        top = [name.partition("/")[0] for name in net.parameters if name.endswith("/hidden_bias")][-1]
        self._keep(net, top)
        self.costs.append(self._entropy(self.inputs_of(self.dataset, "train"), top))
        self.tell(number, self.costs[-1])

    def _entropy(self, seen: Array, top: str) -> float:
        for layer in self.computing:
            if layer.name == top:
                break
            seen = self._up(seen, layer.name)
        again = self._down(self._up(seen, top), top)
        return float(self.cost.apply_function(again, seen))

    def folder(self, path: str, name: str) -> str:
        return str(Path(path) / name)

    def _up(self, seen: Array, name: str) -> Array:
        return Logistic().apply_function(seen @ self.learned[f"{name}/weight"].T + self.learned[f"{name}/hidden_bias"])

    def _down(self, hidden: Array, name: str) -> Array:
        return Logistic().apply_function(hidden @ self.learned[f"{name}/weight"] + self.learned[f"{name}/visible_bias"])

    def predict(self, dataset: Any, name: str) -> Array:
        """Returns the reconstruction of every sample, computed from probabilities up and down again."""
        value = self.inputs_of(dataset, name).astype(self.dtype)
        for layer in self.computing:
            value = self._up(value, layer.name)
        for layer in reversed(self.computing):
            value = self._down(value, layer.name)
        return numpy.asarray(value)


class RBM(DBN):
    """A single restricted Boltzmann machine."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if len(self.computing) != 1:
            self.refuse("layers", f"expected one RBMLayer; received {len(self.computing)} (use DBN for a stack)")

    def folder(self, path: str, name: str) -> str:
        return path

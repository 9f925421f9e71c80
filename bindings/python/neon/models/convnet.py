"""Models of layers in sequence, trained by the engine. A user-defined layer runs as a layer of the engine's net. A user-defined
fprop, bprop or adjust_for_dist of a model runs as the step of the same training loop."""

import contextlib
from typing import Any

import numpy
from numpy.typing import NDArray

from neon.layers.base import WeightLayer
from neon.models import saved_tiles
from neon.models.model import Model
from neon.models.network import Network
from neon.models.own import Clock, ModelStep, joins, weights_of
from neon.params import Rule
from neon.util.distarray.global_array import GlobalArray, LayerInput, comm
from neon.util.together import expect_same_fields, together
from pleiad import nn
from pleiad.errors import InvalidArgument
from pleiad.nn.own import add_own

Array = NDArray[Any]


class MLP(Model):
    """A model of layers in sequence. On several ranks a grid of ranks splits images, if there are any, or else the ranks share
    each batch."""

    #: Whether the targets are the inputs.
    reconstructs = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.trainer: nn.Trainer | None = None
        #: The mean cost of the batches of each epoch.
        self.costs: list[float] = []
        #: The layers whose weights all ranks hold, in a model with its own step.
        self.shared_layers: set[str] = set()
        self._clock: Clock | None = None
        self._step: ModelStep | None = None

    @property
    def users_own(self) -> bool:
        """Whether the model has its own step."""
        methods = ("fprop", "bprop", "adjust_for_dist")
        return any(not getattr(type(self), method).__module__.startswith("neon.") for method in methods)

    # Training.

    def fit(self, dataset: Any) -> None:
        together(lambda: self._expect(dataset))
        expect_same_fields(model=self, dataset=dataset)
        dataset.load_together()
        together(lambda: self._expect_samples(dataset))
        self.dataset = dataset
        with self._error_modes():
            self._train(dataset)

    def _train(self, dataset: Any) -> None:
        self._train_net(dataset, together(lambda: self._network(dataset)), self.num_epochs)

    def _expect(self, dataset: Any) -> None:
        """Checks what can be checked before any data are read."""
        self._share_grid(dataset)
        self.rule()
        if not self.users_own:
            return
        exact = self.backend is not None and self.backend.deterministic
        if exact and comm.size > 1:
            self.backend.refuse("deterministic", f"{type(self).__name__} has its own step; run it in one process")

    def _expect_samples(self, dataset: Any) -> None:
        count = len(dataset.targets["train"])
        if count < self.batch_size:
            self.refuse(
                "batch_size", f"expected at most {count}, the number of training samples; received {self.batch_size}"
            )

    def _share_grid(self, dataset: Any) -> None:
        """Makes the grids of the model and the dataset agree."""
        if self.grid and dataset.grid and self.grid != dataset.grid:
            self.refuse("grid", f'expected "{dataset.grid}", that of the dataset; received "{self.grid}"')
        try:
            dataset.grid = self.grid or dataset.grid
            dataset.grid_shape()
        except InvalidArgument as problem:
            (self if self.grid else dataset).refuse("grid", str(problem))

    def _error_modes(self) -> Any:
        modes = self.backend.error_modes if self.backend is not None else {}
        return numpy.errstate(**modes) if modes else contextlib.nullcontext()

    def _network(self, dataset: Any) -> Network:
        if self.users_own:
            return self._step_network(dataset)
        network = Network(self, type(self).__name__, self.input_shape(dataset), dataset.grid_of())
        for layer in self.computing[:-1]:
            network.layer(layer)
        network.ending(self.classes_of(dataset))
        self.out_shape = network.out_shape
        return network

    def classes_of(self, dataset: Any) -> int:
        """Returns the number of outputs of the last layer."""
        return int(dataset.classes)

    def input_shape(self, dataset: Any) -> "tuple[int, ...]":
        return tuple(dataset.shape)

    def inputs_of(self, dataset: Any, name: str) -> Array:
        inputs: Array = dataset.inputs[name]
        return inputs if len(self.input_shape(dataset)) > 1 else inputs.reshape(len(inputs), -1)

    def samples_of(self, dataset: Any, net: nn.Net, name: str = "train") -> "dict[str, Array]":
        """Returns arrays by the names of the net's inputs."""
        inputs, labels = self.inputs_of(dataset, name), dataset.targets[name]
        arrays = {"x": inputs}
        for target in net.targets:
            if target == "label":
                arrays[target] = labels
            elif self.reconstructs:
                arrays[target] = inputs
            else:
                arrays[target] = numpy.eye(dataset.classes, dtype=self.dtype)[labels]
        return arrays

    def _train_net(
        self, dataset: Any, network: Network, epochs: int, each: Any = None, learned: "dict[str, Array] | None" = None
    ) -> None:
        """Runs the training loop. each(epoch, net) is called before an epoch. learned: initial parameters, this rank's parts."""
        net = network.net
        rule, _ = self.rule()
        steps = self._steps(dataset)
        self._clock = Clock(rule, steps)
        for running in network.running:
            running.clock = self._clock
        if self._step is not None:
            self._step.clock = self._clock
        self.trainer = self.trainer_of(net, rule, dataset, **rule.schedules(epochs, steps))
        self.take(net, learned or {})
        samples = nn.Dataset(net, self.samples_of(dataset, net), seed=self.seed)
        if self.deserialized_path:
            self._load(rule, dataset)
        for epoch in range(self.trainer.step_number // steps, epochs):
            if each is not None:
                each(epoch, net)
            self._epoch(samples, epoch + 1)
        if self.serialized_path:
            self._save(rule, dataset)

    def _save(self, rule: Rule, dataset: Any) -> None:
        assert self.trainer is not None
        if self._step is None:
            self.trainer.save(self.serialized_path)
            return
        facts = saved_tiles.facts_of(self, rule.updater().rule, dataset.grid_of())
        saved_tiles.save(self.serialized_path, self.trainer.state_dict(), facts)

    def _load(self, rule: Rule, dataset: Any) -> None:
        assert self.trainer is not None
        if self._step is None:
            self.trainer.load(self.deserialized_path)
            return
        facts = saved_tiles.facts_of(self, rule.updater().rule, dataset.grid_of())
        self.trainer.load_state_dict(saved_tiles.load(self.deserialized_path, self.trainer.state_dict(), facts))

    def take(self, net: nn.Net, learned: "dict[str, Array]") -> None:
        """Copies values that were learned before into a net, by the names of its parameters."""
        for name, array in learned.items():
            layer, _, kind = name.partition("/")
            found = name if self._step is None or name in net.parameters else f"loss/{layer}.{kind}"
            if found not in net.parameters:
                continue
            if net.parameters[found].shape != array.shape:
                raise InvalidArgument(
                    f'layer "{layer}": its {kind} is of shape {net.parameters[found].shape}; it was learnt as {array.shape}'
                )
            net.parameters[found][...] = array

    def _steps(self, dataset: Any) -> int:
        return max(1, len(dataset.targets["train"]) // self.batch_size)

    def trainer_of(
        self, net: nn.Net, rule: Rule, dataset: Any, plan: "dict[str, Any] | None" = None, **more: Any
    ) -> nn.Trainer:
        """Creates the trainer. On several ranks the grid of the dataset splits images."""
        if self.verbose and comm.rank == 0:
            print(net.describe(), flush=True)
        words = plan if plan is not None else self.plan_of(dataset)
        updater = rule.updater()
        if self.backend is not None and self.backend.raises:
            more["check_finite"] = True

        def check() -> None:  # detects errors in the file before creating the trainer, which is collective
            if words.get("exchange") != "none":
                nn.explain(net, ranks=comm.size, batch=self.batch_size, **words)
            number = nn.Sequential([nn.Dense(1)], input=(1,), loss=nn.EuclideanLoss())
            nn.Trainer(number, updater, batch=1, exchange="none", **more)

        together(check)
        if comm.size == 1:  # also in a process of a larger job that compares with a run without Dist
            words = {**words, "exchange": "none"}
        return nn.Trainer(net, updater, batch=self.batch_size, **words, **more)

    def plan_of(self, dataset: Any) -> "dict[str, Any]":
        if self.users_own:
            return {"exchange": "none"}  # every rank holds its tiles of the whole batch
        return self.engine_plan(dataset)

    def engine_plan(self, dataset: Any) -> "dict[str, Any]":
        words: dict[str, Any] = {"deterministic": self.deterministic}
        if comm.size > 1 and len(self.input_shape(dataset)) == 3 and min(dataset.shape[:2]) > 1:
            words |= {"plan": "spatial", "grid": "x".join(map(str, dataset.grid_of()))}
        return words

    def _epoch(self, samples: Any, number: int) -> None:
        assert self.trainer is not None
        self.costs += self.trainer.fit(samples, epochs=1, drop_last=True, progress=False)["loss"]
        self.tell(number, self.costs[-1])

    def tell(self, epoch: int, cost: float) -> None:
        """Hook that runs after each epoch."""
        if comm.rank == 0:
            print(f"epoch {epoch} of {self.num_epochs}: cost {cost:.6g}", flush=True)

    # Prediction.

    def predict(self, dataset: Any, name: str) -> Array:
        """Returns the outputs of the last layer for every sample, including its activation: whole images on every rank, even if
        each rank computes a tile. Collective."""
        if self.users_own:
            return self._predict_in_steps(dataset, name)
        assert self.trainer is not None
        last = self.computing[-1]
        scores = numpy.asarray(self.trainer.predict(self.inputs_of(dataset, name)))
        if self.cost.joins(last.activation) and not last.users_own:
            scores = last.activation.apply_function(scores)
        return self._whole(scores)

    def _whole(self, local: Array) -> Array:
        """Returns whole images from the tiles of all ranks. Collective."""
        assert self.trainer is not None
        shape = self.out_shape
        if comm.size == 1 or local.ndim != 4 or local.shape[1:] == shape:
            return local
        grid = "x".join(map(str, self.dataset.grid_of()))
        array = GlobalArray((len(local), *shape), grid=grid, dtype=local.dtype, name="predictions")
        return array.gather(local)

    out_shape: "tuple[int, ...]" = ()

    # The model's own step, in NumPy.

    def _step_network(self, dataset: Any) -> Network:
        shape = tuple(dataset.shape)
        for layer in self.computing:
            layer.expect_input(shape)
            shape = tuple(layer.initialize(shape, self.seed, self.dtype))
        self.out_shape = shape
        if not joins(self) and self.cost.joins(self.computing[-1].activation):
            self.computing[-1].refuse("activation", "the last layer of a model with its own step must be an FCLayer")
        before = {layer.name: layer.weights.shape for layer in self.computing if isinstance(layer, WeightLayer)}
        self._adjust()
        if comm.size > 1:
            self.shared_layers = {
                layer.name
                for layer in self.computing
                if isinstance(layer, WeightLayer)
                and layer.weights.shape == before[layer.name]
                and len(layer.in_shape) == len(layer.out_shape) == 3
            }
        local = dataset.inputs["train"].shape[1:]
        network = Network(self, type(self).__name__, local, dataset.grid_of())
        _, scales = self.rule()
        self._step = ModelStep(self, None, scales)  # type: ignore[arg-type]
        target = network.net.input(shape, "target")
        initial = [array.copy() for layer in self._step.learning for array in weights_of(layer).values()]
        add_own(network.net, "loss", self._step, network.value, target)
        for name, array in zip(network.net.parameters, initial, strict=True):
            network.net.parameters[name][...] = array
        return network

    def _adjust(self) -> None:
        """Sets the inputs of the layers by adjust_for_dist. Without a session each layer receives the whole image."""
        if comm.open:
            self.adjust_for_dist()
        for layer in self.computing:
            if layer.input is None and comm.size == 1 and len(layer.in_shape) == 3:
                whole = slice(0, layer.in_shape[0]), slice(0, layer.in_shape[1])
                layer.input = LayerInput(layer.name, (self.batch_size, *layer.in_shape), whole, whole)

    def adjust_for_dist(self) -> None:
        """Sets the inputs of the layers. A model that is not distributed leaves them as they are."""
        if comm.size > 1:
            raise InvalidArgument(
                f"{type(self).__name__} is not distributed but has its own step; derive it from a Dist model, or run it in one"
                " process"
            )

    def fprop(self, inputs: Array) -> None:
        for layer in self.computing:
            layer.fprop(inputs)
            inputs = layer.output

    def bprop(self, targets: Array, inputs: Array, epoch: int, momentum: Any) -> None:
        layers = self.computing
        error = self.cost.apply_derivative(layers[-1].output, targets)
        for layer, before in zip(reversed(layers), [*reversed(layers[:-1]), None], strict=True):
            layer.bprop(error, inputs if before is None else before.output, epoch, momentum)
            if isinstance(layer.input, GlobalArray) and layer.input.halo_is_out():
                layer.berror = layer.input.get_bprop_view(layer.berror)
            error = layer.berror

    def _predict_in_steps(self, dataset: Any, name: str) -> Array:
        assert self._step is not None and self.trainer is not None
        self._step.hand(list(self.trainer.net.parameters.values()))  # a loaded model may not have made a step yet
        images, out = dataset.inputs[name], []
        for layer in self.computing:
            layer.training = False
        for first in range(0, len(images), self.batch_size):
            rows = numpy.minimum(numpy.arange(first, first + self.batch_size), len(images) - 1)
            self.fprop(images[rows].astype(self.dtype))
            out.append(self.computing[-1].output[: len(images) - first].copy())
        for layer in self.computing:
            layer.training = True
        return numpy.concatenate(out)


class Convnet(MLP):
    """The class MLP under the name that neon 0.4 has for models with convolutions."""

"""Models of layers one on top of the other, trained by the engine; or, where a layer or the model is the user's own, layer
by layer in NumPy."""

import time
from typing import Any

import numpy
from numpy.typing import NDArray

from neon.layers.dense import FCLayer
from neon.models.model import Model
from neon.params import momentum_of, rule_of
from neon.transforms import CrossEntropy, Softmax
from neon.util.distarray.global_array import comm
from neon.util.together import together
from pleiad import nn
from pleiad.errors import InvalidArgument

Array = NDArray[Any]


class MLP(Model):
    """Under several ranks images are cut by a grid of ranks where there are any, else the batch is shared out."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.trainer: nn.Trainer | None = None
        #: The mean cost of each epoch's batches.
        self.costs: list[float] = []
        self._ready = False

    # Which way.

    @property
    def users_own(self) -> bool:
        methods = ("fprop", "bprop", "adjust_for_dist")
        own = any(not getattr(type(self), method).__module__.startswith("neon.") for method in methods)
        return own or any(layer.users_own for layer in self.layers)

    def fit(self, dataset: Any) -> None:
        together(self._expect_what_is_done)
        dataset.load_together()
        self.dataset = dataset
        self._fit_in_numpy(dataset) if self.users_own else self._fit_by_engine(dataset)

    def _expect_what_is_done(self) -> None:
        if not self.users_own:
            return
        exact = self.backend is not None and self.backend.deterministic
        given = {
            "serialized_path": self.serialized_path,
            "deserialized_path": self.deserialized_path,
            "deterministic": exact,
        }
        for name, value in given.items():
            if value:
                raise InvalidArgument(
                    f"{type(self).__name__}: {name} is for the engine, and a model with layers of your own is computed in"
                    f" NumPy; received {name} {value!r}"
                )

    # By the engine.

    def build(self, shape: "tuple[int, ...]", classes: int, dtype: Any, seed: int) -> nn.Net:
        """The net, with inputs x and label or target."""
        net = nn.Net(type(self).__name__, dtype=dtype, seed=seed)
        value = net.input(shape, name="x")
        last = self.computing[-1]
        joined = self.cost.joins(last.activation)
        for layer in self.computing:
            parts = layer.engine_layers()
            if layer is last and joined:  # the loss has the activation in it
                parts = parts[:1]
                parts[0].options["activation"] = "linear"
            for part in parts:
                value = net.add(part, value)
        self._softmax = isinstance(self.cost, CrossEntropy) and isinstance(last.activation, Softmax)
        if self._softmax:
            net.add(nn.SoftmaxLoss(), value, net.input((), "label", "int32"), name="loss")
        elif joined:
            net.add(nn.SigmoidLoss(), value, net.input(value.shape, "target"), name="loss")
        elif isinstance(self.cost, CrossEntropy):
            raise InvalidArgument("CrossEntropy goes with a last layer whose activation is Softmax or Logistic")
        else:
            net.add(nn.EuclideanLoss(), value, net.input(value.shape, "target"), name="loss")
        return net

    def _targets(self, labels: Array, classes: int) -> Array:
        return labels if self._softmax else numpy.eye(classes, dtype=numpy.float32)[labels]

    def _fit_by_engine(self, dataset: Any) -> None:
        backend = self.backend
        dtype = backend.element if backend is not None else "float32"
        seed = backend.seed if backend is not None else 0
        net = together(lambda: self.build(dataset.shape, dataset.classes, dtype, seed))
        rule, rises, _ = together(lambda: rule_of(self.rule_words(), self.rate_words(), self.momentum))
        labels = dataset.targets["train"]
        steps = max(1, len(labels) // self.batch_size)
        momentum = None
        if rises is not None:  # by epochs in the file, by steps in the engine
            momentum = nn.schedules.momentum(
                rises["base"], rises["final"], rises["start"] * steps, rises["freq"] * steps
            )
        self.trainer = self.trainer_of(net, rule, dataset, momentum=momentum)
        samples = nn.Dataset(
            net, {"x": dataset.inputs["train"], net.targets[0]: self._targets(labels, dataset.classes)}, seed=seed
        )
        if self.deserialized_path:
            self.trainer.load(self.deserialized_path)
        behind = self.trainer.step_number // steps
        for epoch in range(behind, self.num_epochs):
            self._epoch(samples, epoch + 1)
        if self.serialized_path:
            self.trainer.save(self.serialized_path)

    def trainer_of(self, net: nn.Net, rule: Any, dataset: Any, **more: Any) -> nn.Trainer:
        """On several ranks images are cut by the data set's grid."""
        if self.verbose and comm.rank == 0:
            print(net.describe(), flush=True)
        words = self.plan_of(dataset)

        def check() -> None:  # what is wrong in the file is told here: a trainer's making is an exchange of all ranks
            nn.explain(net, ranks=comm.size, batch=self.batch_size, **words)
            number = nn.Sequential([nn.Dense(1)], input=(1,), loss=nn.EuclideanLoss())
            nn.Trainer(number, rule, batch=1, exchange="none", **more)

        together(check)
        return nn.Trainer(net, rule, batch=self.batch_size, **words, **more)

    def plan_of(self, dataset: Any) -> "dict[str, Any]":
        images = dataset.shape[0] > 1 and dataset.shape[1] > 1
        words: dict[str, Any] = {"deterministic": self.backend is not None and self.backend.deterministic}
        if comm.size > 1 and images:
            words |= {"plan": "spatial", "grid": self.grid or "x".join(map(str, together(dataset.grid_shape)))}
        return words

    def _epoch(self, samples: Any, number: int) -> None:
        assert self.trainer is not None
        before = len(self.trainer.history.records)
        self.trainer.fit(samples, epochs=1, progress=False)
        self.costs += [r.metrics["loss"] for r in self.trainer.history.records[before:] if r.phase == "train"]
        self.tell(number, self.costs[-1])

    def tell(self, epoch: int, cost: float) -> None:
        """After each epoch."""
        if comm.rank == 0:
            print(f"epoch {epoch} of {self.num_epochs}: cost {cost:.6g}", flush=True)

    def predict(self, dataset: Any, name: str) -> Array:
        """Of every sample what the last layer gives, its activation included; on all ranks together."""
        if self.users_own:
            return self._predict_in_numpy(dataset, name)
        assert self.trainer is not None
        scores = self.trainer.predict(dataset.inputs[name])
        last = self.computing[-1].activation
        return last.apply_function(scores) if self.cost.joins(last) else numpy.asarray(scores)

    # In NumPy, layer by layer.

    def _prepare_in_numpy(self, dataset: Any) -> None:
        if self._ready:
            return
        self._ready = True
        shape: tuple[int, ...] = dataset.shape
        self.dtype = self.backend.element if self.backend is not None else numpy.dtype("float32")
        for layer in self.computing:
            shape = layer.initialize(shape, self.backend.seed if self.backend is not None else 0, self.dtype)
        last = self.computing[-1]
        if isinstance(last, FCLayer):
            last.joined = self.cost.joins(last.activation)
        if comm.size > 1:
            self.adjust_for_dist()

    def adjust_for_dist(self) -> None:
        """A model that is not distributed leaves its layers as they are."""
        raise InvalidArgument(
            f"{type(self).__name__} is not distributed and has layers of your own: derive from a Dist model, or run one process"
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
            error = layer.berror

    def _order(self, count: int, epoch: int, seed: int) -> Array:
        return numpy.random.default_rng((seed, epoch)).permutation(count)

    def _fit_in_numpy(self, dataset: Any) -> None:
        self._prepare_in_numpy(dataset)
        seed = self.backend.seed if self.backend is not None else 0
        images, labels = dataset.inputs["train"], dataset.targets["train"]
        wanted = numpy.eye(dataset.classes, dtype=self.dtype)[labels]
        _, _, rate = rule_of(self.rule_words(), self.rate_words(), self.momentum)
        steps = max(1, len(labels) // self.batch_size)
        for epoch in range(self.num_epochs):
            start, total = time.perf_counter(), 0.0
            coefficient, rises = momentum_of(self.momentum)
            if rises is not None:
                along = (epoch - rises["start"]) / max(rises["freq"] - rises["start"], 1)
                coefficient = rises["base"] + (rises["final"] - rises["base"]) * min(max(along, 0), 1)
            order = self._order(len(labels), epoch, seed)
            for step in range(steps):
                rows = order[step * self.batch_size : (step + 1) * self.batch_size]
                batch, targets = images[rows].astype(self.dtype), wanted[rows]
                self.fprop(batch)
                total += self.cost.apply_function(self.computing[-1].output, targets)
                self.bprop(targets, batch, epoch, (rate, coefficient))
            self.costs.append(total / steps)
            self.seconds = time.perf_counter() - start
            self.tell(epoch + 1, self.costs[-1])

    def _predict_in_numpy(self, dataset: Any, name: str) -> Array:
        self._prepare_in_numpy(dataset)
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
    """The same; neon 0.4's name for models with convolutions."""

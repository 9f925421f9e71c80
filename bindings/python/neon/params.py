"""Initial weights, learning rules and momentum: their YAML form and their form in the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neon.util.registry import Component, nearest
from pleiad import nn
from pleiad.options import Updater


class ValGen(Component):
    fields = {"bias_init": 0.0, "backend": None}

    bias_init: float


class UniformValGen(ValGen):
    fields = {"low": -0.1, "high": 0.1}

    low: float
    high: float


class GaussianValGen(ValGen):
    fields = {"loc": 0.0, "scale": 0.01}

    loc: float
    scale: float


class NodeNormalizedValGen(ValGen):
    fields = {"scale": 1.0}

    scale: float


class AutoUniformValGen(ValGen):
    fields = {"relu": False}

    relu: bool


TYPES: "dict[str, type[ValGen]]" = {
    "uniform": UniformValGen,
    "gaussian": GaussianValGen,
    "normal": GaussianValGen,
    "node_normalized": NodeNormalizedValGen,
    "auto_uniform": AutoUniformValGen,
}


def generator_of(owner: Component, given: Any) -> "ValGen | None":
    """Returns the generator that weight_init describes: {type, low, high ...} or an object of a class above."""
    if given is None or isinstance(given, ValGen):
        return given
    if not isinstance(given, Mapping):
        owner.refuse("weight_init", f"expected {{type, ...}}; received {given!r}")
    words = dict(given)
    kind = str(words.pop("type", "uniform"))
    if kind not in TYPES:
        owner.refuse("weight_init", f'unknown type "{kind}"; known: {", ".join(TYPES)}{nearest(kind, list(TYPES))}')
    cls = TYPES[kind]
    numbers = {}
    for name, value in owner.only("weight_init", words, tuple(sorted(cls.fields))).items():
        numbers[name] = owner.number("weight_init", name, value) if isinstance(cls.fields[name], float) else value
    return cls(**numbers)


def weight_of(owner: Component, given: Any, fans: "tuple[int, int] | None" = None) -> Any:
    """Returns an initialiser of pleiad.nn. fans: inputs and outputs of a filter, if they differ from the parameter's."""
    made = generator_of(owner, given)
    if made is None:
        return nn.init.he()
    if isinstance(made, UniformValGen):
        return nn.init.uniform(made.low, made.high)
    if isinstance(made, GaussianValGen):
        return nn.init.gaussian(made.loc, made.scale)
    if isinstance(made, NodeNormalizedValGen):
        if fans is None:
            return nn.init.node_normalized(made.scale)
        bound = made.scale * (6 / sum(fans)) ** 0.5
        return nn.init.uniform(-bound, bound)
    assert isinstance(made, AutoUniformValGen)
    if made.relu:
        owner.refuse("weight_init", "auto_uniform does not support relu; use node_normalized with a scale")
    if fans is None:
        return nn.init.auto_uniform()
    return nn.init.uniform(-(fans[0] ** -0.5), fans[0] ** -0.5)


def bias_of(owner: Component, given: Any) -> float:
    made = generator_of(owner, given)
    return 0.0 if made is None else float(made.bias_init)


KINDS = ("adadelta", "gradient_descent", "gradient_descent_momentum", "gradient_descent_momentum_weight_decay")
SETTINGS = {
    "adadelta": ("rho", "epsilon"),
    "gradient_descent": ("learning_rate", "schedule"),
    "gradient_descent_momentum": ("learning_rate", "schedule", "momentum_params"),
    "gradient_descent_momentum_weight_decay": ("learning_rate", "schedule", "momentum_params", "weight_decay"),
}


@dataclass(frozen=True)
class Momentum:
    """The coefficient by epoch: `initial` before `start`, `saturated` from `saturate` on, and linear in between."""

    initial: float = 0.0
    saturated: float = 0.0
    start: int = 0
    saturate: int = 0
    nesterov: bool = False

    def at(self, epoch: int) -> float:
        if epoch >= self.saturate:
            return self.saturated
        if epoch < self.start:
            return self.initial
        return self.initial + (self.saturated - self.initial) * (epoch - self.start) / (self.saturate - self.start)

    @property
    def none(self) -> bool:
        return self.initial == 0 and self.saturated == 0


def momentum_of(owner: Component, field: str, given: Any) -> Momentum:
    """Returns the momentum that a number or {type, coef, initial_coef, saturated_coef, start_epoch, saturate_epoch} describes."""
    if given is None:
        return Momentum()
    if not isinstance(given, Mapping):
        number = owner.number(field, "coefficient", given, 0)
        return Momentum(number, number)
    names = ("type", "coef", "initial_coef", "saturated_coef", "start_epoch", "saturate_epoch")
    words = owner.only(field, given, names)
    kind = words.pop("type", "constant")
    if kind not in ("constant", "linear_monotone", "nesterov"):
        owner.refuse(field, f'unknown type "{kind}"; known: constant, linear_monotone, nesterov')
    numbers = {name: owner.number(field, name, value, 0) for name, value in words.items()}
    nesterov = kind == "nesterov"
    # A coefficient that rises to itself is also a constant; neon's files for Iris use this form.
    if kind == "constant" and "coef" not in numbers and "initial_coef" in numbers:
        if numbers["initial_coef"] == numbers.get("saturated_coef"):
            numbers = {"coef": numbers["initial_coef"]}
    if kind == "constant" or (nesterov and "saturated_coef" not in numbers):
        extra = [name for name in numbers if name not in ("coef", "initial_coef")]
        if extra or len(numbers) > 1:
            owner.refuse(field, f"expected only coef for a constant; received {', '.join(numbers)}")
        coefficient = numbers.get("coef", numbers.get("initial_coef", 0.0))
        return Momentum(coefficient, coefficient, nesterov=nesterov)
    if "coef" in numbers:
        owner.refuse(field, f"{kind} rises from initial_coef to saturated_coef; remove coef")
    for name in ("initial_coef", "saturated_coef", "saturate_epoch"):
        if name not in numbers:
            owner.refuse(field, f"{kind} needs {name}")
    start, saturate = numbers.get("start_epoch", 0.0), numbers["saturate_epoch"]
    if saturate < start or start != int(start) or saturate != int(saturate):
        owner.refuse(field, f"saturate_epoch: expected an epoch from start_epoch {start:g} on; received {saturate:g}")
    return Momentum(numbers["initial_coef"], numbers["saturated_coef"], int(start), int(saturate), nesterov)


@dataclass(frozen=True)
class Rule:
    """A learning rule. The learning rate of epoch e is rate * ratio^floor((e + 1) / step_epochs)."""

    kind: str = "gradient_descent"
    rate: float = 0.01
    momentum: Momentum = Momentum()
    decay: float = 0.0
    rho: float = 0.95
    epsilon: float = 1e-6
    ratio: float = 1.0
    step_epochs: int = 1

    def but_rate(self) -> "tuple[Any, ...]":
        return self.kind, self.momentum, self.decay, self.rho, self.epsilon, self.ratio, self.step_epochs

    def rate_at(self, epoch: int) -> float:
        return self.rate * self.ratio ** ((epoch + 1) // self.step_epochs)

    def updater(self) -> Updater:
        """Returns the update rule v = m * v - rate * (g + decay * w); w += v. The velocity includes the rate, so that schedules
        mean the same as in neon."""
        if self.kind == "adadelta":
            return Updater("adadelta", learning_rate=1.0, decay=self.rho, epsilon=self.epsilon)
        fields: dict[str, Any] = {"learning_rate": self.rate}
        if self.decay:
            fields["weight_decay"] = self.decay
        if self.momentum.none:
            return Updater("sgd", **fields)
        fields["momentum"] = self.momentum.at(0)
        if self.momentum.nesterov:
            return Updater("nesterov", **fields)
        return Updater("momentum", rate_in_velocity=True, **fields)

    def schedules(self, epochs: int, steps: int) -> "dict[str, Any]":
        """Returns the trainer's schedules: changes by epoch, expressed in steps."""
        found: dict[str, Any] = {}
        count = max(epochs, 1)
        at = [epoch * steps for epoch in range(count)]
        if self.kind != "adadelta" and self.ratio != 1:
            found["schedule"] = nn.schedules.fixed_step(at, [self.rate_at(epoch) for epoch in range(count)])
        if not self.momentum.none and self.momentum.initial != self.momentum.saturated:
            found["momentum"] = nn.schedules.fixed_step(at, [self.momentum.at(epoch) for epoch in range(count)])
        return found


def rate_of(owner: Component, field: str, given: Any) -> float:
    return owner.number(field, "learning rate", given, 0)


def rule_of(owner: Component, given: Any) -> Rule:
    """Returns the rule that lrule_init {type, lr_params} describes."""
    words = owner.only("lrule_init", given, ("type", "lr_params"))
    kind = str(words.get("type", ""))
    if kind not in KINDS:
        owner.refuse("lrule_init", f'unknown type "{kind}"; known: {", ".join(KINDS)}{nearest(kind, list(KINDS))}')
    settings = owner.only("lrule_init", words.get("lr_params", {}), SETTINGS[kind])
    named = {"rho": "rho", "epsilon": "epsilon", "weight_decay": "decay"}
    fields: dict[str, Any] = {
        new: owner.number("lrule_init", old, settings[old], 0) for old, new in named.items() if old in settings
    }
    if "learning_rate" in settings:
        fields["rate"] = rate_of(owner, "lrule_init", settings["learning_rate"])
    if "momentum_params" in settings:
        fields["momentum"] = momentum_of(owner, "lrule_init", settings["momentum_params"])
    if settings.get("schedule") is not None:
        schedule = owner.only("lrule_init", settings["schedule"], ("type", "ratio", "step_epochs"))
        if schedule.get("type", "step") != "step":
            owner.refuse("lrule_init", f"schedule: expected type step; received {schedule['type']!r}")
        fields["ratio"] = owner.number("lrule_init", "ratio", schedule.get("ratio", 1), 0)
        fields["step_epochs"] = int(owner.number("lrule_init", "step_epochs", schedule.get("step_epochs", 1), 1))
    return Rule(kind=kind, **fields)

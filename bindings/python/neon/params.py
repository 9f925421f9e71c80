"""What weights start as, and learning rules: as YAML files say them and as the engine takes them."""

from collections.abc import Mapping
from typing import Any

from neon.util.registry import Component, nearest
from pleiad import nn
from pleiad.errors import InvalidArgument
from pleiad.options import Updater


class UniformValGen(Component):
    fields = {"low": -0.1, "high": 0.1, "bias_init": 0.0}
    ignored = frozenset({"backend"})


class GaussianValGen(Component):
    fields = {"loc": 0.0, "scale": 0.01, "bias_init": 0.0}
    ignored = frozenset({"backend"})


class NodeNormalizedValGen(Component):
    fields = {"scale": 1.0, "bias_init": 0.0}
    ignored = frozenset({"backend"})


class AutoUniformValGen(Component):
    fields = {"relu": False, "bias_init": 0.0}
    ignored = frozenset({"backend"})


TYPES = {
    "uniform": UniformValGen,
    "gaussian": GaussianValGen,
    "normal": GaussianValGen,
    "node_normalized": NodeNormalizedValGen,
    "auto_uniform": AutoUniformValGen,
}


def weight_of(given: Any) -> Any:
    """An initialiser of pleiad.nn from weight_init: a class above, or {type, low, high...}."""
    if given is None:
        return nn.init.he()
    if isinstance(given, Mapping):
        words = dict(given)
        kind = str(words.pop("type", "uniform"))
        if kind not in TYPES:
            raise InvalidArgument(
                f'weight_init: unknown type "{kind}"; known: {", ".join(TYPES)}{nearest(kind, list(TYPES))}'
            )
        given = TYPES[kind](**words)
    if isinstance(given, UniformValGen):
        return nn.init.uniform(given.low, given.high)  # type: ignore[attr-defined]
    if isinstance(given, GaussianValGen):
        return nn.init.gaussian(given.loc, given.scale)  # type: ignore[attr-defined]
    if isinstance(given, NodeNormalizedValGen):
        return nn.init.node_normalized(given.scale)  # type: ignore[attr-defined]
    if isinstance(given, AutoUniformValGen):
        return nn.init.auto_uniform()
    raise InvalidArgument(f"weight_init: expected a type with its numbers; received {given!r}")


RULES = ("adadelta", "gradient_descent", "gradient_descent_momentum", "gradient_descent_momentum_weight_decay")


def rule_of(given: Any, rate: Any = None, momentum: Any = None) -> "tuple[Updater, Any, float]":
    """The engine's rule, its schedule of momentum by epochs (or None), and the rate: from lrule_init {type, lr_params}, or
    from a model's learning_rate and momentum."""
    kind = "gradient_descent"
    words: dict[str, Any] = {}
    if given is not None:
        if not isinstance(given, Mapping) or "type" not in given:
            raise InvalidArgument(f"lrule_init: expected {{type, lr_params}}; received {given!r}")
        kind = str(given["type"])
        if kind not in RULES:
            raise InvalidArgument(
                f'lrule_init: unknown type "{kind}"; known: {", ".join(RULES)}{nearest(kind, list(RULES))}'
            )
        words = dict(given.get("lr_params", {}))
        rate = words.get("learning_rate", rate)
        momentum = words.get("momentum_params", momentum)
    if isinstance(rate, Mapping):
        rate = rate.get("learning_rate", rate.get("lr", 0.01))
    number = 0.01 if rate is None else float(rate)
    if kind == "adadelta":
        return (
            Updater(
                "adadelta",
                learning_rate=1.0,
                decay=float(words.get("rho", 0.95)),
                epsilon=float(words.get("epsilon", 1e-6)),
            ),
            None,
            number,
        )
    decay = float(words.get("weight_decay", 0))
    coefficient, schedule = momentum_of(momentum)
    if coefficient == 0 and schedule is None:
        more = {"weight_decay": decay} if decay else {}
        return Updater("sgd", learning_rate=number, **more), None, number
    fields: dict[str, Any] = {"learning_rate": number, "momentum": coefficient}
    if decay:
        fields["weight_decay"] = decay
    return Updater("momentum", **fields), schedule, number


def momentum_of(given: Any) -> "tuple[float, Any]":
    """The coefficient, and {initial, start, saturate, saturated} where it rises with the epochs."""
    if given is None:
        return 0.0, None
    if not isinstance(given, Mapping):
        return float(given), None
    kind = given.get("type", "constant")
    if kind == "constant":
        return float(given.get("coef", given.get("initial_coef", 0))), None
    if kind == "linear_monotone":
        return float(given["initial_coef"]), {
            "base": float(given["initial_coef"]),
            "final": float(given["saturated_coef"]),
            "start": int(given.get("start_epoch", 0)),
            "freq": int(given["saturate_epoch"]),
        }
    raise InvalidArgument(f'momentum: unknown type "{kind}"; known: constant, linear_monotone')

"""Initialisers of parameters by name: uniform, gaussian, constant, or none (values come from a checkpoint)."""

from typing import Any

ALIASES = {"gauss": "gaussian", "const": "constant", "normal": "gaussian"}

# The fields of ParamGenProto that each kind reads, with their defaults.
KINDS: dict[str, dict[str, float]] = {
    "uniform": {"low": -0.05, "high": 0.05},
    "gaussian": {"mean": 0.0, "std": 0.01},
    "constant": {"value": 0.0},
    "gaussian_sqrt_fan_in": {"value": 1.0, "mean": 0.0, "std": 1.0},
    "uniform_sqrt_fan_in": {"value": 1.0, "low": -1.0, "high": 1.0},
    "uniform_sqrt_fan_in_out": {"value": 1.0, "low": -1.0, "high": 1.0},
    "none": {},
}
TYPES = {
    "uniform": "kUniform",
    "gaussian": "kGaussian",
    "constant": "kConstant",
    "gaussian_sqrt_fan_in": "kGaussianSqrtFanIn",
    "uniform_sqrt_fan_in": "kUniformSqrtFanIn",
    "uniform_sqrt_fan_in_out": "kUniformSqrtFanInOut",
}
FIELDS = ("value", "low", "high", "scale", "mean", "std")


def kind_of(name: str) -> str:
    kind = ALIASES.get(name, name)
    if kind not in KINDS:
        raise ValueError(f'unknown init "{name}"; known: {", ".join([*KINDS, *ALIASES])}')
    return kind


def get_init_values(identifier: str, **kwargs: Any) -> dict[str, float]:
    """Returns the fields that this kind reads, and ignores other arguments. `scale` is the range of a uniform initialiser."""
    kind = kind_of(identifier)
    values = dict(KINDS[kind])
    if kind == "uniform" and kwargs.get("scale") is not None:
        values = {"low": -float(kwargs["scale"]), "high": float(kwargs["scale"])}
    return values | {name: float(kwargs[name]) for name in values if kwargs.get(name) is not None}

"""Initialisers. The initial values of a parameter depend only on the net's seed and the parameter's name.

>>> from pleiad import nn
>>> net = nn.Net(seed=3)
>>> h = nn.Dense(4, weight=nn.init.uniform(-1, 1))(net.input((3,)))
>>> bool((abs(net.parameters["dense1/weight"]) <= 1).all())
True
"""

from pleiad.nn.params import Init


def constant(value: float) -> Init:
    """All elements equal `value`."""
    return Init("constant", {"value": value})


def gaussian(mean: float = 0, std: float = 0.01) -> Init:
    """Normal distribution with this mean and standard deviation: N(mean, std)."""
    return Init("gaussian", _changed(mean=(mean, 0), std=(std, None)))


def uniform(low: float = -1, high: float = 1) -> Init:
    """Uniform distribution U(low, high)."""
    return Init("uniform", {"low": low, "high": high})


def gaussian_sqrt_fan_in(mean: float = 0, std: float = 1, value: float = 1) -> Init:
    """value * N(mean, std) / sqrt(fan_in)."""
    return Init("gaussian_sqrt_fan_in", {"mean": mean, "std": std, "value": value})


def uniform_sqrt_fan_in(low: float = -1, high: float = 1, value: float = 1) -> Init:
    """value * U(low, high) / sqrt(fan_in / 3)."""
    return Init("uniform_sqrt_fan_in", {"low": low, "high": high, "value": value})


def uniform_sqrt_fan_in_out(low: float = -1, high: float = 1, value: float = 1) -> Init:
    """value * U(low, high) / sqrt(fan_in + fan_out)."""
    return Init("uniform_sqrt_fan_in_out", {"low": low, "high": high, "value": value})


def node_normalized(scale: float = 1) -> Init:
    """U(-1, 1) * scale * sqrt(6 / (fan_in + fan_out)). With scale 1 it is Glorot's or Xavier's initialiser."""
    return Init("node_normalized", {"scale": scale})


def glorot() -> Init:
    """U(-1, 1) * sqrt(6 / (fan_in + fan_out))."""
    return node_normalized(1)


def auto_uniform() -> Init:
    """U(-1, 1) / sqrt(fan_in)."""
    return Init("auto_uniform")


def he() -> Init:
    """N(0, 1) * sqrt(2 / fan_in), for relu."""
    return Init("he")


def _changed(**numbers: "tuple[float, float | None]") -> dict[str, float]:
    return {name: value for name, (value, default) in numbers.items() if value != default}

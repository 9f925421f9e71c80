"""How parameters are initialised and trained."""

from dataclasses import dataclass, field, replace
from typing import Any

from pleiad.errors import InvalidArgument
from pleiad.nn.engine import _nn


@dataclass(frozen=True)
class Init:
    """An initialiser with its settings. The functions of `pleiad.nn.init` create them.

    >>> from pleiad import nn
    >>> nn.init.gaussian(std=0.1)
    Init('gaussian', std=0.1)
    """

    type: str
    numbers: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Init({', '.join([repr(self.type), *(f'{n}={v!r}' for n, v in self.numbers.items())])})"


@dataclass(frozen=True)
class Param:
    """How one parameter of a layer is initialised and trained.

    Args:
        init: an initialiser, or its name.
        rate_scale: factor of the learning rate.
        decay_scale: factor of the weight decay.
        share: name ("layer/weight") of a parameter of an earlier layer, which this layer then uses as its own.
        norm: norm to which each filter is rescaled after an update; 0 disables it.
        apart: if layers share the parameter, apply each layer's gradient as a separate update.

    >>> from pleiad import nn
    >>> nn.Dense(10, weight=nn.Param("he", decay_scale=0)).options["weight.init"]
    'he'
    """

    init: "Init | str | None" = None
    rate_scale: float = 1
    decay_scale: float = 1
    share: str = ""
    norm: float = 0
    apart: bool = False


ALIASES = {"glorot": "node_normalized", "xavier": "node_normalized", "zeros": "constant"}

ParamLike = Param | Init | str | float | None


def param_options(name: str, wanted: ParamLike) -> dict[str, Any]:
    """Returns the layer options that describe a parameter, such as "weight.init"."""
    if wanted is None:
        return {}
    if isinstance(wanted, bool) or not isinstance(wanted, Param | Init | str | int | float):
        raise InvalidArgument(
            f"{name}: expected nn.Param, an initialiser, its name or a number; received {type(wanted).__name__}"
        )
    if isinstance(wanted, int | float):
        wanted = Init("constant", {"value": float(wanted)})
    if not isinstance(wanted, Param):
        wanted = Param(wanted)
    init = Init(wanted.init) if isinstance(wanted.init, str) else wanted.init
    options: dict[str, Any] = {}
    if init is not None:
        known = _nn.init_names()
        type_name = ALIASES.get(init.type, init.type)
        if type_name not in known:
            raise InvalidArgument(f'{name}: unknown initialiser "{init.type}"; known: {", ".join(known)}')
        options[f"{name}.init"] = type_name
        # The value makes the initialiser explicit, because a layer's own default may be a constant.
        plain = {"value": 0.0 if init.type == "zeros" else 1.0}
        options |= {f"{name}.{number}": value for number, value in {**plain, **init.numbers}.items()}
    for option, default in (("rate_scale", 1), ("decay_scale", 1), ("share", ""), ("norm", 0), ("apart", False)):
        value = getattr(wanted, option)
        if value != default:
            options[f"{name}.{option}"] = value
    return options


def shared(wanted: ParamLike, name: str) -> Param:
    """Returns `wanted` with `share` set to a parameter's name."""
    return replace(wanted, share=name) if isinstance(wanted, Param) else Param(share=name)

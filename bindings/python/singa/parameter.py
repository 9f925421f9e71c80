"""Parameter: how a layer's weight or bias starts and learns. A template: layers take a copy when they are made."""

from typing import Any

from singa.initializations import FIELDS, TYPES, get_init_values, kind_of
from singa.job_pb2 import InitMethod, ParamProto
from singa.utils.utility import refuse_unknown

KNOWN = ("name", "lr", "wd", "init", "level", "share_from", *FIELDS)


class Parameter:
    """lr, wd: multipliers of the learning rate and the weight decay. init: uniform (low, high, or scale), gaussian (mean,
    std; also gauss), constant (value; also const), or none: a checkpoint has it. Fields that this init does not look at
    are remembered for when `update` changes it.

    >>> Parameter(lr=2, wd=10, init='gaussian', std=0.1).param.lr_scale
    2.0
    """

    def __init__(self, **kwargs: Any) -> None:
        self.fields: dict[str, Any] = {"init": "gaussian"}
        self.update(**kwargs)

    def update(self, **kwargs: Any) -> None:
        """Changes fields; layers that were made before stay as they are."""
        refuse_unknown("Parameter", kwargs, KNOWN)
        self.fields |= {name: value for name, value in kwargs.items() if value is not None}
        kind_of(self.fields["init"])

    def copy(self, **kwargs: Any) -> "Parameter":
        other = Parameter()
        other.fields = dict(self.fields)
        other.update(**kwargs)
        return other

    @property
    def param(self) -> Any:
        """As a ParamProto of its own."""
        fields = self.fields
        proto = ParamProto()
        name = fields.get("name")
        if name is not None:
            level = fields.get("level", 0)
            proto.name = f"{name}{level}" if level else name
        if "lr" in fields:
            proto.lr_scale = float(fields["lr"])
        if "wd" in fields:
            proto.wd_scale = float(fields["wd"])
        if "share_from" in fields:
            proto.share_from = fields["share_from"]
        kind = kind_of(fields["init"])
        if kind != "none" and "share_from" not in fields:
            proto.init.type = InitMethod.Value(TYPES[kind])
            for field, value in get_init_values(kind, **{key: fields.get(key) for key in FIELDS}).items():
                setattr(proto.init, field, value)
        return proto


def set_param_field(param: Any, pname: str, changename: bool = False, withnumber: bool = True, **kwargs: Any) -> None:
    """Sets fields of a ParamProto from arguments that begin with the parameter's letter: w_lr, w_std."""
    given = {key[2:]: value for key, value in kwargs.items() if key.startswith(pname[0] + "_")}
    given.pop("param", None)
    refuse_unknown("set_param_field", given, KNOWN)
    if changename and "name" not in given and not param.name:
        param.name = pname
    if "name" in given:
        param.name = given["name"]
    if "lr" in given:
        param.lr_scale = float(given["lr"])
    if "wd" in given:
        param.wd_scale = float(given["wd"])
    for field in FIELDS:
        if field in given and field != "scale":
            setattr(param.init, field, float(given[field]))


def taken(letter: str, param: "Parameter | None", usual: str, kwargs: dict[str, Any]) -> "Parameter":
    """The parameter of a layer: a copy of the given one or the usual, changed by those of the layer's arguments that begin
    with its letter, which are taken out of `kwargs`."""
    prefix = letter + "_"
    own = {key[len(prefix) :]: kwargs.pop(key) for key in list(kwargs) if key.startswith(prefix)}
    refuse_unknown(f"{prefix}...", own, KNOWN)
    if param is not None and not isinstance(param, Parameter):
        raise TypeError(f"{letter}_param: expected a Parameter; received {type(param).__name__}")
    return (param or Parameter(init=usual)).copy(**own)

"""Parameter: how a layer's weight or bias is initialised and trained. It is a template of which each layer takes a copy."""

from typing import Any

from singa.initializations import FIELDS, TYPES, get_init_values, kind_of
from singa.job_pb2 import InitMethod, ParamProto
from singa.utils.utility import refuse_unknown

KNOWN = ("name", "lr", "wd", "init", "level", "share_from", *FIELDS)


class Parameter:
    """Settings of a weight or bias. lr, wd: factors of the learning rate and the weight decay. init: uniform (low, high, or
    scale), gaussian (mean, std; also "gauss"), constant (value; also "const"), or none, if a checkpoint provides the values.
    Fields that this init does not read are kept for the case that `update` changes init.

    >>> Parameter(lr=2, wd=10, init='gaussian', std=0.1).param.lr_scale
    2.0
    """

    def __init__(self, **kwargs: Any) -> None:
        self.fields: dict[str, Any] = {"init": "gaussian"}
        self.update(**kwargs)

    def update(self, **kwargs: Any) -> None:
        """Changes fields. Layers that exist already do not change."""
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
        """The parameter as a new ParamProto."""
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
    """Sets fields of a ParamProto from arguments that start with the letter of the parameter, such as w_lr and w_std."""
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
    """Returns the parameter of a layer: a copy of the given or default one, changed by the layer's arguments that start with
    `letter`. Removes those arguments from `kwargs`."""
    prefix = letter + "_"
    own = {key[len(prefix) :]: kwargs.pop(key) for key in list(kwargs) if key.startswith(prefix)}
    refuse_unknown(f"{prefix}...", own, KNOWN)
    if param is not None and not isinstance(param, Parameter):
        raise TypeError(f"{letter}_param: expected a Parameter; received {type(param).__name__}")
    return (param or Parameter(init=usual)).copy(**own)

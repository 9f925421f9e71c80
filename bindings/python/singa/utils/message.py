"""Protobuf messages and enums by their short names: Message('Store', path='x').proto, enumLayerType('softmax')."""

from collections.abc import Callable
from typing import Any

from singa import job_pb2
from singa.job_pb2 import *  # noqa: F403
from singa.utils.utility import refuse_unknown, setval

MODULE = job_pb2
_messages = {name.removesuffix("Proto"): name for name in dir(job_pb2) if name.endswith("Proto") and name[0] != "_"}


class Message:
    """A message by its name without the suffix Proto, with its fields set."""

    def __init__(self, protoname: str, **kwargs: Any) -> None:
        refuse_unknown("Message", [protoname], _messages)
        self.proto = getattr(job_pb2, _messages[protoname])()
        setval(self.proto, **kwargs)


def _enum(name: str) -> Callable[[Any], int]:
    values = dict(getattr(job_pb2, name).items())
    lower = {key.removeprefix("k").lower(): value for key, value in values.items()}
    short = lower | values

    def find(word: Any) -> int:
        if isinstance(word, int):
            return word
        key = word if word in short else str(word).lower()
        if key not in short:
            refuse_unknown(name, [key], lower)
        return short[key]

    find.__doc__ = f"A value of {name}, by 'name' or 'kName'."
    return find


enumAlgType = _enum("AlgType")
enumLayerType = _enum("LayerType")
enumUpdaterType = _enum("UpdaterType")
enumPhase = _enum("Phase")
enumParamType = _enum("ParamType")
enumChangeMethod = _enum("ChangeMethod")
enumInitMethod = _enum("InitMethod")
enumPoolMethod = _enum("PoolMethod")
enumActivationType = _enum("ActivationType")
enumUnrollConnType = _enum("UnrollConnType")

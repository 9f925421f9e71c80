"""The base of all layers, and the layer that reads records."""

from collections.abc import Sequence
from typing import Any

from singa.interactive import Lone
from singa.utils.message import MODULE as pb
from singa.utils.message import enumLayerType, enumPhase
from singa.utils.utility import arguments_of_class, refuse_unknown, setval

COMMON = ("name", "partition_dim", "src", "exclude", "include")


def pair(value: Any, what: str) -> tuple[int, int]:
    """Returns a length for each direction, from a number or a pair."""
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 2 or not all(isinstance(each, int) for each in values):
        raise TypeError(f"{what}: expected a number, or a pair of them; received {value!r}")
    return values


def set_lengths(conf: Any, where: str, **lengths: "tuple[str, Any]") -> None:
    """Sets the field of each argument to one number, or to one per direction if they differ."""
    for argument, (field, value) in lengths.items():
        x, y = pair(value, f"{where}: {argument}")
        setval(conf, **({field: x} if x == y else {f"{field}_x": x, f"{field}_y": y}))


class Layer(Lone):
    """The common part of all layers: `layer`, a LayerProto; its name; and partition_dim, 0 for samples and 1 for outputs.

    `label` is the prefix of the name that a model gives to an unnamed layer.
    """

    label = "layer"
    is_datalayer = False

    def __init__(self, **kwargs: Any) -> None:
        refuse_unknown(type(self).__name__, kwargs, {*COMMON, *arguments_of_class(type(self))})
        super().__init__()
        self.layer = pb.LayerProto()
        self.src = kwargs.pop("src", None)
        for phases in ("include", "exclude"):
            words = kwargs.pop(phases, None)
            if words is not None:
                words = [words] if isinstance(words, str | int) else words
                setval(self.layer, **{phases: [enumPhase(word) for word in words]})
        setval(self.layer, **kwargs)

    def parts(self) -> list[tuple[str, Any]]:
        """Returns the labels for names, and the LayerProtos that this layer becomes, in order."""
        return [(self.label, self.layer)]

    def _set_type(self, name: str) -> None:
        self.layer.type = enumLayerType(name)


class Data(Layer):
    """Reads records. load: "recordinput", "csvinput" or another kind of input layer. phase: "train", "val" or "test". conf: a
    Store. checkpoint: files with initial parameters of the model."""

    label = "data"
    is_datalayer = True

    def __init__(
        self, load: str, phase: "str | Sequence[str]" = "train", checkpoint: Any = None, conf: Any = None, **kwargs: Any
    ) -> None:
        store = {key: kwargs.pop(key) for key in list(kwargs) if key not in COMMON}
        super().__init__(**kwargs)
        self._set_type(load)
        words = [phase] if isinstance(phase, str) else list(phase)
        words = ["val" if word in ("validate", "validation", "valid") else word for word in words]
        setval(self.layer, include=[enumPhase(word) for word in words])
        if conf is not None:
            self.layer.store_conf.CopyFrom(conf.proto)
        setval(self.layer.store_conf, **store)
        self.checkpoint = [checkpoint] if isinstance(checkpoint, str) else checkpoint
        self.made_by: dict[str, str] = {}

    @property
    def phases(self) -> set[int]:
        return set(self.layer.include)

"""The NetProto of a model's layers."""

from collections.abc import Sequence
from typing import Any

from singa.layer import RBM, Activation, Autoencoder, Data
from singa.utils.message import MODULE as pb
from singa.utils.message import enumLayerType

LOSSES = {"categorical_crossentropy": "softmaxloss", "mean_squared_error": "euclideanloss"}


def build_net(sources: Sequence[Data], above: Sequence[Any], loss: "str | None", topk: int) -> Any:
    """Returns the NetProto of the layers `above`, in order, over the `sources`."""
    pretrained = any(each.checkpoint for each in sources)
    names = _Names()
    net = pb.NetProto()
    for each in sources:
        names.add(net, "data", each.layer, [], number=False)
    last = "data" if not sources else net.layer[-1].name
    source = last
    for each in above:
        made = each.layers(pretrained) if isinstance(each, Autoencoder) else [each]
        if isinstance(each, RBM):
            made = [*each.below(), each]
        for layer in made:
            for label, proto in layer.parts():
                last = names.add(net, label, proto, [last], number=not isinstance(layer, RBM))
            if isinstance(layer, RBM):
                hidden = names.add(net, "RBMHid", layer.hidden(), [last], number=False)
                net.layer[-2].srclayers.append(hidden)
    _close(net, names, last, source, loss, topk)
    return net


def _close(net: Any, names: "_Names", last: str, source: str, loss: "str | None", topk: int) -> None:
    """Adds the loss on top."""
    top = net.layer[-1]
    if top.type == enumLayerType("rbmhid"):
        return
    ends = (enumLayerType("softmaxloss"), enumLayerType("euclideanloss"))
    if top.type not in ends:
        loss = loss or ("categorical_crossentropy" if top.type == enumLayerType("softmax") else None)
        if loss is None:
            raise TypeError(
                f"compile: expected loss, one of {', '.join(LOSSES)}, because the last layer is not a softmax"
            )
        if top.type == enumLayerType("softmax"):
            last = top.srclayers[0]
            del net.layer[-1]
        names.add(net, "loss", Activation(LOSSES[loss], topk=topk).layer, [last], number=False)
        top = net.layer[-1]
    if source not in list(top.srclayers)[1:]:
        top.srclayers.append(source)


class _Names:
    """Generates names for unnamed layers and parameters: ip1, ip2, loss; w1, b1."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.weights = 0

    def add(self, net: Any, label: str, proto: Any, sources: list[str], number: bool = True) -> str:
        layer = net.layer.add()
        layer.CopyFrom(proto)
        if not layer.name:
            self.counts[label] = self.counts.get(label, 0) + 1
            layer.name = f"{label}{self.counts[label]}" if number else label
        del layer.srclayers[:]
        layer.srclayers.extend(sources)
        if len(layer.param) == 2 and not any(param.share_from for param in layer.param):
            self.weights += 1
            for letter, param in zip("wb", layer.param, strict=True):
                if not param.name:
                    param.name = f"{letter}{self.weights}"
        return layer.name

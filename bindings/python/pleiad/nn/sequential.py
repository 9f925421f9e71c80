"""Nets of layers in sequence."""

from collections.abc import Sequence
from typing import Any

from pleiad.nn.layers import Layer, Loss
from pleiad.nn.net import Net
from pleiad.nn.own import OwnLayer, OwnLoss


def Sequential(
    layers: Sequence[Layer | OwnLayer],
    *,
    input: Sequence[int],
    loss: "Loss | OwnLoss | None" = None,
    name: str = "net",
    dtype: Any = "float32",
    seed: int = 1,
) -> Net:
    """Creates a net of layers in sequence. Its inputs are "x" and, if there is a loss, "label" (softmax) or "target".

    >>> from pleiad import nn
    >>> net = nn.Sequential([nn.Dense(128, "relu"), nn.Dense(10)], input=(784,), loss=nn.SoftmaxLoss())
    >>> net.inputs, net.layers
    ({'x': 'float32', 'label': 'int32'}, ['dense1', 'dense2', 'loss'])
    """
    net = Net(name, dtype=dtype, seed=seed)
    value = net.input(input, name="x")
    for layer in layers:
        value = net.add(layer, value)
    if loss is not None:
        labels = loss.kind == "softmax_loss" or getattr(loss, "target", None) == "label"
        target = net.input((), "label", "int32") if labels else net.input(value.shape, "target")
        net.add(loss, value, target, name=loss.name or "loss")
    return net

"""Saves and loads the parameters of layers that a script calls one by one, as SINGA checkpoints."""

from pathlib import Path
from typing import Any

import numpy

from singa.interactive import Lone
from singa.layer import ImageInput, LabelInput, Loss
from singa.utils.message import MODULE as pb


def _is_input(layer: Any) -> bool:
    return isinstance(layer, ImageInput | LabelInput) or bool(getattr(layer, "is_datalayer", False))


def _parameters(layers: list[Any]) -> list[tuple[str, Lone, int]]:
    """Returns each weight (0) and bias (1) with its name and layer. Unnamed ones are called w1, b1, w2 and so on, as in a
    model."""
    found: list[tuple[str, Lone, int]] = []
    number = 0
    for layer in layers:
        if _is_input(layer) or not layer._cores or not layer._cores[0].parameters():
            continue
        number += 1
        for k, letter in enumerate("wb"):
            given = layer.layer.param[k].name if len(layer.layer.param) > k else ""
            found.append((given or f"{letter}{number}", layer, k))
    return found


def _set_up(layers: list[Any], batchsize: int, data_shape: Any) -> None:
    """Creates the parameters of every layer, by passing zeros through layers that have had no data yet."""
    before: Any = None
    for layer in layers:
        if _is_input(layer):
            if layer._data is None and isinstance(layer, LabelInput):
                layer.Feed(numpy.zeros((batchsize, 1)))
            elif layer._data is None:
                sizes = (layer.nb_channel, layer.height, layer.width)
                shape = tuple(data_shape) if data_shape is not None else (batchsize, *sizes)
                if None in shape:
                    raise TypeError(
                        "load_model_parameter: expected data_shape, (batch, ...), because the input layer has no size"
                    )
                layer.Feed(numpy.zeros((shape[0], int(numpy.prod(shape[1:])))))
            if not isinstance(layer, LabelInput):
                before = layer
            continue
        if isinstance(layer, Loss):
            continue
        if not layer._cores:
            sources = layer.src if isinstance(layer.src, list | tuple) else [layer.src] if layer.src else [before]
            layer.ComputeFeature(*sources, phase="test")
        before = layer


def load_model_parameter(fin: str, neuralnet: Any, batchsize: int = 1, data_shape: Any = None) -> None:
    """Sets the parameters of the layers `neuralnet`, input layers first, from the checkpoint file `fin`. Layers that have not
    computed anything yet are created for data of data_shape, (batch, channels, height, width)."""
    layers = list(neuralnet)
    if not Path(fin).is_file():
        raise FileNotFoundError(f"{fin}: no such checkpoint")
    try:
        blobs = pb.BlobProtos.FromString(Path(fin).read_bytes())
    except Exception as problem:
        raise ValueError(f"{fin}: not a SINGA checkpoint: {problem}") from None
    values = {name.split("#", 1)[-1]: blob for name, blob in zip(blobs.name, blobs.blob, strict=True)}
    _set_up(layers, batchsize, data_shape)
    wanted = _parameters(layers)
    missing = [name for name, _, _ in wanted if name not in values]
    if missing:
        raise ValueError(f"{fin}: has no {', '.join(missing)}; it has {', '.join(values) or 'nothing'}")
    for layer in {id(layer): layer for _, layer, _ in wanted}.values():
        own = [name for name, other, _ in wanted if other is layer]
        layer.SetParams(*(numpy.array(values[name].data, numpy.float32) for name in own))


def save_model_parameter(step: int, fout: str, neuralnet: Any) -> None:
    """Writes the parameters of the layers `neuralnet` to the checkpoint file {fout}/step{step}-worker0."""
    blobs = pb.BlobProtos()
    parameters = _parameters(list(neuralnet))
    if not parameters:
        raise ValueError("save_model_parameter: no layer has parameters yet; call ComputeFeature first")
    for name, layer, k in parameters:
        value = layer.GetParams()[k]
        value = value if k == 0 else value.reshape(-1)
        blobs.version.append(step)
        blobs.name.append(name)
        blob = blobs.blob.add()
        blob.shape.extend(value.shape)
        blob.data.extend(value.reshape(-1).tolist())
    folder = Path(fout)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step{step}-worker0"
    part = target.with_name(f".{target.name}.tmp")
    part.write_bytes(blobs.SerializeToString())
    part.replace(target)

"""Layers that a script calls one by one: ComputeFeature, ComputeGradient, Feed, GetParams and so on."""

from typing import Any

import numpy
from numpy.typing import NDArray

from singa.engine import _job
from singa.utils.utility import generate_name


def _last(images: NDArray[Any]) -> NDArray[Any]:
    """Converts (n, c, h, w) to (n, h, w, c)."""
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1))


def _first(images: NDArray[Any]) -> NDArray[Any]:
    """Converts (n, h, w, c) to (n, c, h, w)."""
    return numpy.ascontiguousarray(images.transpose(0, 3, 1, 2))


class Lone:
    """The methods of a layer outside a model. Between layers images have their channels last; a script passes and receives them
    with channels first, as in SINGA."""

    seed = 1

    def __init__(self) -> None:
        self._cores: list[Any] = []
        self._data: NDArray[Any] | None = None
        self._gradient: NDArray[Any] | None = None
        self._sources: list[Lone] = []
        self._step = 0

    # Input.

    def _feed_images(self, data: Any, width: "int | None", height: "int | None", channels: int) -> None:
        rows = numpy.asarray(data, numpy.float32)
        rows = rows.reshape(len(rows), -1)
        if width is None or height is None:
            self._data = numpy.ascontiguousarray(rows)
            return
        if rows.shape[1] != channels * height * width:
            raise ValueError(
                f"Feed: expected rows of {channels} x {height} x {width} values; received {rows.shape[1]} per row"
            )
        self._data = _last(rows.reshape(-1, channels, height, width))

    def _feed_labels(self, data: Any) -> None:
        self._data = numpy.ascontiguousarray(numpy.asarray(data).reshape(-1), numpy.int32)

    # Passes.

    def ComputeFeature(self, *srclys: "Lone", phase: str = "train") -> None:  # noqa: N802
        """Computes this layer's output from those of its sources."""
        sources = list(srclys) or list(getattr(self, "src", None) or [])
        arrays = []
        for source in sources:
            if source._data is None:
                raise ValueError(
                    f"ComputeFeature: {type(source).__name__} has no data yet; call its Feed or ComputeFeature first"
                )
            arrays.append(source._data)
        if not arrays:
            raise TypeError("ComputeFeature: expected the source layers; received none")
        if not self._cores:
            for label, proto in self.parts():  # type: ignore[attr-defined]
                name = proto.name or generate_name(label)
                self._cores.append(_job.Layer(proto.SerializeToString(), name, self.seed))
        self._sources = sources
        self._gradient = None
        for core in self._cores:
            core.forward(arrays, phase, self._step)
            arrays = [core.output(0)]
        self._step += phase == "train"
        self._data = arrays[0]

    def ComputeGradient(self, step: "int | None" = None, upd: Any = None) -> None:  # noqa: N802
        """Computes the gradients of this layer's parameters and sources. With an updater, also updates the parameters and
        continues with the sources."""
        if not self._cores:
            raise ValueError("ComputeGradient: call ComputeFeature first")
        gradient = None if self._cores[-1].metrics() else self._gradient
        for core in reversed(self._cores):
            core.backward(gradient)
            gradient = core.input_gradient(0)
        source = self._sources[0]
        source._gradient = gradient
        if upd is not None:
            self._update(upd, step or 0)
            if source._cores:
                source.ComputeGradient(step, upd)

    def _update(self, updater: Any, step: int) -> None:
        for core in self._cores:
            if core.parameters():
                core.update(updater.proto.SerializeToString(), step)

    # Values.

    def _weights(self) -> tuple[NDArray[Any], NDArray[Any], "tuple[int, ...] | None"]:
        if not self._cores:
            raise ValueError("GetParams: call ComputeFeature first")
        weight, bias = list(self._cores[0].parameters().values())[:2]
        shape = self._sources[0]._data.shape if self._sources and self._sources[0]._data is not None else None
        return weight, bias, shape if shape is not None and len(shape) == 4 else None

    def GetParams(self) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: N802
        """Returns copies of the weight, a matrix, and of the bias, a column."""
        weight, bias, image = self._weights()
        if weight.ndim == 4:
            weight = _first(weight).reshape(len(weight), -1)
        elif image is not None and weight.shape[1] == numpy.prod(image[1:]):
            weight = _first(weight.reshape(-1, *image[1:])).reshape(len(weight), -1)
        return weight.copy(), bias.reshape(-1, 1).copy()

    def SetParams(self, *params: Any) -> None:  # noqa: N802
        """Sets weight and bias, in the shapes that GetParams returns."""
        weight, bias, image = self._weights()
        given = numpy.asarray(params[0], numpy.float32)
        if given.size != weight.size:
            raise ValueError(f"SetParams: expected a weight of {weight.size} elements; received {given.size}")
        if weight.ndim == 4:
            filters, height, width, channels = weight.shape
            weight[...] = _last(given.reshape(filters, channels, height, width))
        elif image is not None and weight.shape[1] == numpy.prod(image[1:]):
            height, width, channels = image[1:]
            weight[...] = _last(given.reshape(-1, channels, height, width)).reshape(weight.shape)
        else:
            weight[...] = given.reshape(weight.shape)
        if len(params) > 1:
            bias[...] = numpy.asarray(params[1], numpy.float32).reshape(bias.shape)

    def GetData(self) -> list[float]:  # noqa: N802
        """Returns the layer's output as a list."""
        if self._data is None:
            raise ValueError("GetData: there is no data yet; call Feed or ComputeFeature first")
        data = _first(self._data) if self._data.ndim == 4 else self._data
        return [float(number) for number in data.reshape(-1)]

    def metrics(self) -> dict[str, float]:
        """Returns the metrics of a loss layer."""
        core = self._cores[-1]
        return {name: core.metric(i) for i, name in enumerate(core.metrics())}

    def display(self) -> None:
        """Prints the metrics of a loss layer, or a summary of another layer's output."""
        if self._cores and self._cores[-1].metrics():
            print(", ".join(f"{name} : {value:.6f}" for name, value in self.metrics().items()))
        elif self._data is not None:
            print(f"{type(self).__name__} {self._data.shape}: mean |x| {numpy.abs(self._data).mean():.6f}")

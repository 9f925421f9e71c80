"""An auto-encoder: layers that are trained to reconstruct the input."""

from typing import Any

import numpy

from neon.models.convnet import MLP
from neon.util.distarray.global_array import comm


class Reconstructing(MLP):
    """Base class of models whose targets are their inputs, as rows of values. Several ranks share each batch."""

    reconstructs = True

    def _expect(self, dataset: Any) -> None:
        if dataset.dist_flag and comm.size > 1:
            dataset.refuse("dist_flag", f"{type(self).__name__} needs whole images; set it to False")
        super()._expect(dataset)

    def input_shape(self, dataset: Any) -> "tuple[int, ...]":
        return (int(numpy.prod(dataset.shape)),)

    def classes_of(self, dataset: Any) -> int:
        return int(numpy.prod(dataset.shape))


class Autoencoder(Reconstructing):
    """An auto-encoder. layers: AELayers or other fully connected ones; the last one has as many outputs as a sample has values."""

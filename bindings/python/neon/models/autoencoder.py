"""An auto-encoder: layers that are trained to give the input again."""

from typing import Any

import numpy

from neon.models.convnet import MLP
from neon.util.distarray.global_array import comm


class Reconstructing(MLP):
    """Models whose targets are their inputs, as rows of values. On several ranks the batch is shared out."""

    reconstructs = True

    def _expect(self, dataset: Any) -> None:
        if dataset.dist_flag and comm.size > 1:
            dataset.refuse("dist_flag", f"{type(self).__name__} takes whole images; set it to False")
        super()._expect(dataset)

    def input_shape(self, dataset: Any) -> "tuple[int, ...]":
        return (int(numpy.prod(dataset.shape)),)

    def classes_of(self, dataset: Any) -> int:
        return int(numpy.prod(dataset.shape))


class Autoencoder(Reconstructing):
    """layers: AELayers or other fully connected ones, the last with as many outputs as a sample has values."""

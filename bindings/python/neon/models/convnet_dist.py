"""A convolutional net over a grid of ranks: halos for layers over images, partial sums for the layer after them."""

from neon.layers.dense import FCLayer
from neon.models.convnet import Convnet
from neon.util.distarray.global_array import GlobalArray, comm


class ConvnetDist(Convnet):
    """A Convnet that the engine's spatial plan trains. In a model with its own step, adjust_for_dist gives each layer over images
    its `input`, and each layer fetches its halos itself."""

    def adjust_for_dist(self) -> None:
        if not self.dataset.dist_flag and comm.size > 1:
            self.dataset.refuse("dist_flag", f"{type(self).__name__} has its own step over tiles; set it to True")
        rows, columns = self.dataset.grid_shape()
        shape: tuple[int, ...] = self.dataset.shape
        for layer in self.computing:
            if len(shape) == 3:
                window = layer.window()
                if window is None and not isinstance(layer, FCLayer):
                    shape = layer.out_shape
                    continue  # elementwise layers need only the tile
                size, stride = window or ((1, 1), (1, 1))
                layer.input = GlobalArray(
                    (self.batch_size, *shape),
                    grid=f"{rows}x{columns}",
                    window=size,
                    stride=stride,
                    pad=layer.padding(),
                    dtype=self.dtype,
                    name=layer.name,
                )
                layer.adjust_for_dist()
            shape = layer.out_shape

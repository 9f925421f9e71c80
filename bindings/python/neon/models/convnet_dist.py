"""A convolutional net over a grid of ranks: halos for layers over images, partial sums for the layer after them."""

from neon.layers.dense import FCLayer
from neon.models.convnet import Convnet
from neon.util.distarray.global_array import GlobalArray, comm


class ConvnetDist(Convnet):
    """Trained by the engine's spatial plan. In a model with a step of its own, adjust_for_dist gives each layer over images
    its `input`, and each layer gets its halos by itself."""

    def adjust_for_dist(self) -> None:
        if not self.dataset.dist_flag and comm.size > 1:
            self.dataset.refuse("dist_flag", f"{type(self).__name__} has a step of its own over tiles: set it to True")
        rows, columns = self.dataset.grid_shape()
        shape: tuple[int, ...] = self.dataset.shape
        for layer in self.computing:
            if len(shape) == 3:
                window = layer.window()
                if window is None and not isinstance(layer, FCLayer):
                    shape = layer.out_shape
                    continue  # element by element: its tile is enough
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

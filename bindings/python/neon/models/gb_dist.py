"""The sparse auto-encoder over a grid of ranks."""

from neon.models.convnet_dist import ConvnetDist
from neon.models.gb import GB


class GBDist(GB):
    """A GB under the name that files with dist_flag use; GB itself also runs on several ranks. With user-defined layers,
    adjust_for_dist gives each layer over images its `input`, as in ConvnetDist."""

    def adjust_for_dist(self) -> None:
        ConvnetDist.adjust_for_dist(self)  # type: ignore[arg-type]

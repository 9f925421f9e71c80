"""The sparse auto-encoder over a grid of ranks."""

from neon.models.convnet_dist import ConvnetDist
from neon.models.gb import GB


class GBDist(GB):
    """GB already runs on ranks; the name is that of files with dist_flag. With layers of your own, adjust_for_dist gives
    each layer over images its `input`, as that of ConvnetDist does."""

    def adjust_for_dist(self) -> None:
        ConvnetDist.adjust_for_dist(self)  # type: ignore[arg-type]

"""Models: they build a net of their layers and train it."""

from neon.models.convnet import MLP, Convnet
from neon.models.convnet_dist import ConvnetDist
from neon.models.model import Model

__all__ = ["MLP", "Convnet", "ConvnetDist", "Model"]

"""Models, which build a net from their layers and train it."""

from neon.models.autoencoder import Autoencoder
from neon.models.convnet import MLP, Convnet
from neon.models.convnet_dist import ConvnetDist
from neon.models.gb import GB
from neon.models.gb_dist import GBDist
from neon.models.model import Model
from neon.models.rbm import DBN, RBM

__all__ = ["DBN", "GB", "MLP", "RBM", "Autoencoder", "Convnet", "ConvnetDist", "GBDist", "Model"]

"""Datasets. `load()` stores images in `inputs` and labels in `targets`, both dicts with "train" and "test". With dist_flag each
rank reads and keeps only its tile of every image, which neon calls a quad.
"""

from neon.datasets.cifar10 import CIFAR10
from neon.datasets.dataset import Dataset
from neon.datasets.iris import Iris
from neon.datasets.mnist import MNIST

__all__ = ["CIFAR10", "MNIST", "Dataset", "Iris"]

"""See singa.datasets.cifar10."""

from singa.datasets.cifar10 import build, load_data

__all__ = ["build", "load_data"]

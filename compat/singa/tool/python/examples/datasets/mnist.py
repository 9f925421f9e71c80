"""See singa.datasets.mnist."""

from singa.datasets.mnist import build, load_data

__all__ = ["build", "load_data"]

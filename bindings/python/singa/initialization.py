"""The same as singa.initializations, under the name that the document has."""

from singa.initializations import get_init_values

__all__ = ["get_init_values"]

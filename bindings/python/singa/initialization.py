"""The module singa.initializations under the name that SINGA's documentation uses."""

from singa.initializations import get_init_values

__all__ = ["get_init_values"]

"""Distributed arrays and the ranks that hold them."""

from neon.util.distarray.global_array import GlobalArray, comm

__all__ = ["GlobalArray", "comm"]

"""Arrays over ranks, and the ranks."""

from neon.util.distarray.global_array import GlobalArray, comm

__all__ = ["GlobalArray", "comm"]

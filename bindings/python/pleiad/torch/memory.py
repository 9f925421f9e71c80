"""Memory of gradients that comes back at every step."""

import ctypes
import os

# From malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
AT_MOST = 1 << 30
_kept = False


def keep_freed_memory() -> None:
    """Tells the C library to keep what is freed for the next allocation, up to a gigabyte. Gradients are made anew in
    every backward pass, and memory that the system takes back and gives again, page by page, costs a quarter of a step
    of a large model. Settings of the user's count: MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_, and
    PLEIAD_KEEP_MEMORY=0 turns this off."""
    global _kept
    asked = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD", "GLIBC_TUNABLES")
    if _kept or os.environ.get("PLEIAD_KEEP_MEMORY", "1") == "0" or any(name in os.environ for name in asked):
        return
    _kept = True
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, AT_MOST)
        mallopt(M_TRIM_THRESHOLD, AT_MOST)

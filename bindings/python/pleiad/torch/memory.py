"""Reuse of the memory of gradients between steps."""

import ctypes
import os

# From malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
AT_MOST = 1 << 30
_kept = False


def keep_freed_memory() -> None:
    """Makes the C library keep up to 1 GiB of freed memory for later allocations. Every backward pass allocates the
    gradients again, and returning that memory to the kernel and faulting it in page by page takes a quarter of a step of
    a large model. User settings take precedence: the function does nothing if MALLOC_TRIM_THRESHOLD_,
    MALLOC_MMAP_THRESHOLD_, LD_PRELOAD or GLIBC_TUNABLES is set, or PLEIAD_KEEP_MEMORY=0."""
    global _kept
    asked = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD", "GLIBC_TUNABLES")
    if _kept or os.environ.get("PLEIAD_KEEP_MEMORY", "1") == "0" or any(name in os.environ for name in asked):
        return
    _kept = True
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, AT_MOST)
        mallopt(M_TRIM_THRESHOLD, AT_MOST)

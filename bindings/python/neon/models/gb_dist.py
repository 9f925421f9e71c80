"""The sparse auto-encoder over a grid of ranks."""

from neon.models.gb import GB


class GBDist(GB):
    """GB already runs on ranks; the name is that of files with dist_flag."""

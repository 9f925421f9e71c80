from neon.transforms import SumSquaredDiffs

__all__ = ["SumSquaredDiffs"]

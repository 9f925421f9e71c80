from neon.transforms import Linear

__all__ = ["Linear"]

from neon.transforms import Identity, Linear

__all__ = ["Identity", "Linear"]

from neon.transforms import RectLeaky, RectLin

__all__ = ["RectLeaky", "RectLin"]

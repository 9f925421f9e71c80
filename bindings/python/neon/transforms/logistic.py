from neon.transforms import Logistic

__all__ = ["Logistic"]

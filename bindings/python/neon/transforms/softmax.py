from neon.transforms import Softmax

__all__ = ["Softmax"]

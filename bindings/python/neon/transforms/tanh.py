from neon.transforms import Tanh

__all__ = ["Tanh"]

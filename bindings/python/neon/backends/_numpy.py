from neon.backends import Backend, Numpy, Numpy64

__all__ = ["Backend", "Numpy", "Numpy64"]

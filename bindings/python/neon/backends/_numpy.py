from neon.backends import Backend, Numpy

__all__ = ["Backend", "Numpy"]

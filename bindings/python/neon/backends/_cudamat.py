from neon.backends import Cudamat

__all__ = ["Cudamat"]

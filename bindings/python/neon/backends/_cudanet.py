from neon.backends import Cudanet

__all__ = ["Cudanet"]

from neon.models.rbm import DBN

__all__ = ["DBN"]

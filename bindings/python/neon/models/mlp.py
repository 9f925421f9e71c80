from neon.models.convnet import MLP

__all__ = ["MLP"]

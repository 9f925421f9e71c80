from neon.backends import FixedPoint, fixpt_dtype

__all__ = ["FixedPoint", "fixpt_dtype"]

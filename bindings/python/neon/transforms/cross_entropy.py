from neon.transforms import CrossEntropy

__all__ = ["CrossEntropy"]

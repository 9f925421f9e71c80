from neon.backends import CPU, Backend

__all__ = ["CPU", "Backend"]

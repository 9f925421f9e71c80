"""neon 0.4 has its layers here."""

from neon.layers import *  # noqa: F403

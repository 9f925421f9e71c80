"""The layers, in the module in which neon 0.4 has them."""

from neon.layers import *  # noqa: F403

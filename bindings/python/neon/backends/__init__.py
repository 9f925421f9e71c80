"""Back ends. All compute by Pleiad's engine; a back end has the seed and the element type."""

from typing import Any

import numpy

from neon.util.registry import Component


class Backend(Component):
    """rng_seed: of weights, dropout and shuffles. default_dtype: float32 or float64. deterministic: the same bits at every
    number of ranks; slow."""

    fields = {"rng_seed": 0, "default_dtype": "float32", "dtype": "", "deterministic": False}

    deterministic: bool
    ignored = frozenset({"actual_batch_size", "stochastic_round", "device_id"})

    @property
    def element(self) -> Any:
        return numpy.dtype(str(getattr(self, "dtype", "") or getattr(self, "default_dtype", "float32")))

    @property
    def seed(self) -> int:
        return int(getattr(self, "rng_seed", 0))


class Numpy(Backend):
    pass


class CPU(Backend):
    pass


__all__ = ["CPU", "Backend", "Numpy"]

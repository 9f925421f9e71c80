"""Back ends. Pleiad's engine computes for all of them. A back end holds the seed, the element type and the error mode."""

from typing import Any

import numpy

from neon.util.registry import Component

MODES = ("ignore", "warn", "raise", "call", "print", "log")


class Backend(Component):
    """Settings of the computation.

    rng_seed: seed of weights, dropout and shuffling. default_dtype: "float32" or "float64". deterministic: make results
    bit-identical for any number of ranks; slow. seterr_handling: NumPy's error modes, such as {all: warn}; "raise" also ends a
    run whose loss is not finite."""

    fields = {
        "rng_seed": 0,
        "default_dtype": "float32",
        "dtype": "",
        "deterministic": False,
        "seterr_handling": None,
    }

    rng_seed: int
    default_dtype: str
    dtype: str
    deterministic: bool
    seterr_handling: Any
    #: Names the settings of the file that this machine treats differently. Printed once.
    notice = ""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for field in ("default_dtype", "dtype"):
            name = str(getattr(self, field))
            if name and name not in ("float32", "float64"):
                self.refuse(field, f"expected float32 or float64; received {name!r}")
        modes = {} if self.seterr_handling is None else self.seterr_handling
        modes = self.only("seterr_handling", modes, ("all", "divide", "over", "under", "invalid"))
        for name, mode in modes.items():
            if mode not in MODES:
                self.refuse("seterr_handling", f"{name}: expected {', '.join(MODES)}; received {mode!r}")
        self.error_modes: dict[str, Any] = modes

    @property
    def element(self) -> Any:
        return numpy.dtype(self.dtype or self.default_dtype)

    @property
    def seed(self) -> int:
        return int(self.rng_seed)

    @property
    def raises(self) -> bool:
        """Whether a value that is not finite ends the run."""
        return "raise" in (self.error_modes.get("all"), self.error_modes.get("invalid"), self.error_modes.get("over"))


class Numpy(Backend):
    pass


class Numpy64(Backend):
    fields = {"default_dtype": "float64"}


class CPU(Backend):
    pass


class GPUBackend(Backend):
    """A back end for a GPU. The engine computes on the CPU and prints a notice once."""

    fields = {"device_id": 0}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.notice = f"the back end {type(self).__name__} is for a GPU; this run uses the processor"


class Cudanet(GPUBackend):
    pass


class Cudamat(GPUBackend):
    pass


class GPU(GPUBackend):
    pass


REASON = (
    "fixed-point arithmetic is not simulated: the engine computes in float32 or float64 (docs/neon.md#fixed-point);"
    " use neon.backends._numpy.Numpy"
)


class FixedPoint(Component):
    """Not supported; see REASON."""

    fields = {"rng_seed": 0, "seterr_handling": None, "default_dtype": None, "dtype": None}

    def __init__(self, **given: Any) -> None:
        self.refuse("default_dtype", REASON)


class fixpt_dtype(Component):  # noqa: N801  the name that files have
    """Not supported; see REASON."""

    fields = {"sign_bit": True, "int_bits": 0, "frac_bits": 0, "overflow": 0, "rounding": 0}

    def __init__(self, **given: Any) -> None:
        self.refuse("frac_bits", REASON)


__all__ = [
    "CPU",
    "GPU",
    "Backend",
    "Cudamat",
    "Cudanet",
    "FixedPoint",
    "GPUBackend",
    "Numpy",
    "Numpy64",
    "fixpt_dtype",
]

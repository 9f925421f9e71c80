"""The values of options that are words, for type checkers."""

from typing import Literal

Clock = Literal["sync", "async"]
Exchange = Literal["auto", "none", "all_reduce", "tables"]
Phase = Literal["train", "validate", "test"]
Plan = Literal["data", "feature", "hybrid", "spatial"]
ProgressMode = Literal["auto", "bar", "lines", "off"]
ActivationName = Literal["linear", "relu", "leaky", "sigmoid", "tanh", "stanh", "softplus"]
Layout = Literal["pleiad", "torch"]

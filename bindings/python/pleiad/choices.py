"""The values of options that are words, for type checkers."""

from typing import Literal

#: Tables: when calls take effect, and whether the rule runs for each add or for the sum of all workers' k-th adds.
TableClock = Literal["async", "sync", "ssp"]
Apply = Literal["each", "round"]
Engine = Literal["auto", "solo", "mpi"]
LogLevel = Literal["debug", "info", "warn", "error", "off"]

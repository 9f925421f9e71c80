"""The metric that a callback or a schedule watches."""

from typing import Any, Literal

from pleiad.errors import InvalidArgument
from pleiad.nn.history import Record

Mode = Literal["auto", "min", "max"]


class Monitor:
    """Tells when a metric of the records improves. `owner` is the name in errors."""

    def __init__(self, owner: str, monitor: str, min_delta: float, mode: str) -> None:
        if mode not in ("auto", "min", "max"):
            raise InvalidArgument(f"[{owner}] mode: expected auto, min or max; received {mode!r}")
        self.owner, self.name, self.min_delta, self.mode = owner, monitor, float(min_delta), mode
        self.phase = "validate" if monitor.startswith("val_") else "train"
        self.metric = monitor.removeprefix("val_")
        self.sign = 1 if mode == "max" or (mode == "auto" and "accuracy" in monitor) else -1

    def options(self) -> dict[str, Any]:
        return {"monitor": self.name, "min_delta": self.min_delta, "mode": self.mode}

    def check(self, validates: bool) -> None:
        """Raises an InvalidArgument if the run has no such records."""
        if self.phase == "validate" and not validates:
            raise InvalidArgument(
                f'[{self.owner}] monitor "{self.name}" needs validation data; received fit(validation=None); pass '
                f'validation=(x, y), or monitor="{self.metric}"'
            )

    def value(self, record: Record) -> "float | None":
        """Returns the metric of a record, or None if the record is of another phase."""
        if record.phase != self.phase:
            return None
        if self.metric not in record.metrics:
            raise InvalidArgument(f'[{self.owner}] unknown metric "{self.metric}"; known: {", ".join(record.metrics)}')
        return record.metrics[self.metric]

    def improves(self, value: float, best: "float | None") -> bool:
        return best is None or self.sign * (value - best) > self.min_delta

"""Checks that the framework modules share: do all ranks train the same model?"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from pleiad.errors import InvalidArgument
from pleiad.options import Updater
from pleiad.sessions import Session, session

CLOCKS = ("async", "sync")


def all_workers(given: Session | None, where: str) -> Session:
    """Returns `given`, or the session of this process. Raises unless every rank is a worker."""
    found = session() if given is None else given
    if found.workers != found.size:
        raise InvalidArgument(
            f"[{where}] expected every rank to be a worker; {found.workers} of the {found.size} ranks are workers"
        )
    return found


def launched_processes() -> int:
    """Returns the number of processes that the launcher started, as its environment variables say; 1 without a launcher."""
    names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]
    if "TORCHELASTIC_RUN_ID" in os.environ:
        names.append("WORLD_SIZE")
    if "SLURM_STEP_ID" in os.environ:
        names.append("SLURM_STEP_NUM_TASKS")
    return max([1, *(int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal())])


def check_clock(clock: str, where: str) -> None:
    """Raises InvalidArgument unless `clock` is known."""
    if clock not in CLOCKS:
        raise InvalidArgument(f'[{where}] unknown clock "{clock}"; known: {", ".join(CLOCKS)}')


def check_count(value: int, name: str, where: str) -> int:
    """Returns `value`. Raises InvalidArgument unless it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"[{where}] {name}: expected an integer of at least 1; received {value!r}")
    return value


def scaled(updater: "str | Mapping[str, Any] | Updater | None", scale: float, where: str) -> Updater:
    """Returns an update rule that multiplies gradients by `scale` before it applies them."""
    if updater is None:
        raise InvalidArgument(f'[{where}] gradient mode needs an updater: pleiad.Updater("sgd", learning_rate=0.1)')
    if isinstance(updater, Updater):
        rule, fields = updater.rule, dict(updater.fields)
    elif isinstance(updater, str):
        rule, fields = updater, {}
    else:
        fields = dict(updater)
        rule = fields.pop("rule", "sum")
    if rule == "sum":
        raise InvalidArgument(
            f'[{where}] rule "sum" adds gradients to the parameters, so the loss would grow; use "sgd" or another rule for gradients'
        )
    fields["scale"] = fields.get("scale", 1.0) * scale
    return Updater(rule, **fields)


def agree(found: Session, where: str, lines: Sequence[str]) -> None:
    """Raises on every rank, with the first line that differs, unless all ranks pass the same lines. Collective."""
    if found.size == 1:
        return
    text = "\n".join([where, *lines]).encode()
    digest = numpy.frombuffer(hashlib.sha256(text).digest(), numpy.int64).copy()
    digests = found.all_gather(digest)
    if (digests == digests[0]).all():
        return
    lengths = found.all_gather(numpy.array([len(text)], numpy.int64)).reshape(-1)
    padded = numpy.zeros(int(lengths.max()), numpy.int32)
    padded[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    rows = found.all_gather(padded)
    first, *others = (
        bytes(row[:length].astype(numpy.uint8)).decode().split("\n")
        for row, length in zip(rows, lengths.tolist(), strict=True)
    )
    for rank, theirs in enumerate(others, start=1):
        for place in range(max(len(first), len(theirs))):
            a = first[place] if place < len(first) else "nothing"
            b = theirs[place] if place < len(theirs) else "nothing"
            if a != b:
                raise InvalidArgument(
                    f"[{where}] all ranks must train the same model; rank 0 has {a}, rank {rank} has {b}"
                    f" (entry {place} of {len(first) - 1} and {len(theirs) - 1})"
                )

"""Stores that are built on first use, by one rank for all."""

from collections.abc import Callable
from pathlib import Path

from singa.engine import session


def build_once(paths: list[Path], build: Callable[[], None]) -> None:
    """Calls build where a file is missing; under a launcher the first rank does it, and the others wait."""
    world = session()
    if world.rank == 0 and not all(path.exists() for path in paths):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        build()
    if world.size > 1:
        world.barrier()


def say(text: str) -> None:
    if session().rank == 0:
        print(text, flush=True)

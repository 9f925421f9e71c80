"""Stores that one rank builds for all on first use."""

import dis
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from singa.engine import session

# The stores for training and testing, and the name of the dataset, such as "mnist".
Found = tuple[Any, Any, str]


class Loaded(tuple[Any, Any, str]):
    """The result of load_data: training data, test data and the workspace. SINGA's documentation also writes
    `X_train, X_test = mnist.load_data()`; a script that unpacks two values gets the first two."""

    def __iter__(self) -> Iterator[Any]:
        names = _names_unpacked(sys._getframe(1))
        if names not in (None, 2, 3):
            raise ValueError(
                f"load_data: returns X_train, X_test and the workspace, which may be left out; cannot unpack into {names} names"
            )
        return iter(tuple(self[:2]) if names == 2 else tuple(self[:]))


def _names_unpacked(frame: Any) -> "int | None":
    """Returns the number of names to which the frame's current instruction unpacks a sequence."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0 or dis.opname[code[at]] != "UNPACK_SEQUENCE":
        return None
    return int(code[at + 1])


def build_once(
    name: str, paths: list[Path], folder: str, find: Callable[[str, bool], "Found | None"], convert: Callable[..., None]
) -> None:
    """Builds the stores `paths` if one is missing, and prints what their records are. Stores that were built here are rebuilt if
    `folder` holds other files than those they came from, or if they came from a stand-in and the real dataset exists now.
    find(folder, stand_in) looks for the files; convert(train, test) writes the stores. Under a launcher the first rank builds
    them while the others wait."""
    world = session()
    if world.rank == 0:
        origin = paths[0].parent / "source.txt"
        missing = not all(path.exists() for path in paths)
        was = origin.read_text().strip() if origin.exists() else ""
        stood_in = was != "" and not was.startswith(f"{name}: ")
        found = find(folder, missing) if missing or (was and (folder or stood_in)) else None
        if found is not None and (missing or _source(found) != was):
            say(f"{name}: building {' and '.join(str(path) for path in paths[:2])}{' again' if not missing else ''}")
            paths[0].parent.mkdir(parents=True, exist_ok=True)
            for old in (origin, *paths):  # removed first, so that an interrupted build leaves a file missing
                old.unlink(missing_ok=True)
            convert(found[0], found[1])
            was = _source(found)
            origin.write_text(was + "\n")
        if was:
            say(f"{name}: records of {was}")
    if world.size > 1:
        world.barrier()


def _source(found: Found) -> str:
    files = found[0].name.split(", ")
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{found[2]}: {files[0]}{more}"


def say(text: str) -> None:
    if session().rank == 0:
        print(text, flush=True)

"""Saved state of a model with its own step: every rank saves the state of its tile, and only the same grid can continue."""

import json
import os
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from neon.layers.base import Array
from neon.util.distarray.global_array import comm
from neon.util.together import expect_same, together
from pleiad.errors import FileError

FACTS = ("model", "rule", "ranks", "grid")


def facts_of(model: Any, rule: str, grid: "tuple[int, int, int]") -> "dict[str, Any]":
    """Returns the properties on which a saved state and the model that continues it must agree."""
    return {"model": type(model).__name__, "rule": rule, "ranks": comm.size, "grid": list(grid)}


def file_of(folder: str) -> Path:
    return Path(folder) / f"rank{comm.rank}.npz"


def save(folder: str, state: "Mapping[str, Array]", facts: "dict[str, Any]") -> None:
    """Writes one file per rank. No file replaces an older one before all ranks have written theirs. Collective."""
    facts = {**facts, "save": comm.gather_texts(uuid.uuid4().hex)[0]}
    arrays: dict[str, Any] = {f"state/{name}": array for name, array in state.items()}
    arrays["facts"] = numpy.asarray(json.dumps(facts))
    path = file_of(folder)
    written = path.with_name(f"{path.name}.{os.getpid()}.new")

    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written.open("wb") as file:
            numpy.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())

    try:
        together(write)
        together(lambda: written.replace(path))
    finally:
        written.unlink(missing_ok=True)


def load(folder: str, state: "Mapping[str, Array]", facts: "dict[str, Any]") -> "dict[str, Array]":
    """Loads the state that save() wrote. `state` is the current state of the model. Collective."""
    path = file_of(folder)

    def read() -> "tuple[str, dict[str, Array]]":
        mistake = (
            f"{path}: expected the state of a model with a step of its own, as serialized_path writes it; received"
        )
        try:
            with numpy.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            found = json.loads(str(arrays.pop("facts")))
        except FileNotFoundError:
            if comm.rank > 0 and path.with_name("rank0.npz").exists():
                raise FileError(f"{path}: not found: fewer than {comm.size} ranks saved this model") from None
            raise FileError(f"{mistake} no such file") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as problem:
            raise FileError(f"{mistake} a damaged or foreign file ({problem})") from problem
        for fact in FACTS:
            if found.get(fact) != facts[fact]:
                raise FileError(
                    f"{path}: {fact}: expected {facts[fact]}, as in this run; it was saved with {found.get(fact)}"
                )
        arrays = {name.removeprefix("state/"): array for name, array in arrays.items()}
        for name in sorted(set(arrays) | set(state)):
            there, here = (f"{each[name].dtype} {each[name].shape}" if name in each else "" for each in (arrays, state))
            if there != here:
                raise FileError(
                    f"{path}: {name} is {there or 'missing'} in the file and {here or 'missing'} in this model"
                )
        return found["save"], arrays

    token, arrays = together(read)
    expect_same(f"{folder}: the ranks' files are of different saves", token)
    return arrays

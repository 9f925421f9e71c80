"""Saves and restores the random number generators of a process."""

import random
import zlib
from typing import Any

import numpy
import torch


def random_state() -> dict[str, Any]:
    """Returns the states of the generators of PyTorch, NumPy and Python as tensors and plain values."""
    saved: Any = numpy.random.get_state(legacy=True)
    name, keys, position, has_gauss, gauss = saved
    version, words, next_gauss = random.getstate()
    made = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(keys.astype(numpy.int64)), int(position), int(has_gauss), float(gauss)],
        "python": [version, torch.tensor(words, dtype=torch.int64), next_gauss],
    }
    if torch.cuda.is_available():
        made["cuda"] = torch.cuda.get_rng_state()
    return made


def set_random_state(states: list[dict[str, Any]], rank: int, size: int) -> None:
    """Restores the state of this rank. If a different number of ranks saved the states, seeds the generators differently on
    each rank, from the first saved state and the rank."""
    if len(states) != size:
        seed = zlib.crc32(states[0]["torch"].numpy().tobytes(), rank)
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        random.seed(seed)
        return
    state = states[rank]
    torch.set_rng_state(state["torch"])
    name, keys, position, has_gauss, gauss = state["numpy"]
    numpy.random.set_state((name, keys.numpy().astype(numpy.uint32), position, has_gauss, gauss))
    version, words, next_gauss = state["python"]
    random.setstate((version, tuple(words.tolist()), next_gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])

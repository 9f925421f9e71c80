"""Access to the weights of Keras models on both backends."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument
from pleiad.sessions import Session
from pleiad.worlds import agree

BACKENDS = ("torch", "jax")


def check_backend(where: str) -> str:
    """Returns the Keras backend. Raises InvalidArgument unless it is supported."""
    name = str(keras.backend.backend())
    if name not in BACKENDS:
        raise InvalidArgument(f"[{where}] expected Keras on {' or '.join(BACKENDS)}; received {name}")
    return name


def attach_state(model: Any) -> None:
    """Attaches the weights to the model. During `fit` on JAX they are stored outside it."""
    if keras.backend.backend() == "jax":
        model.jax_state_sync()


def values_of(variable: Any) -> NDArray[Any]:
    if keras.backend.is_float_dtype(variable.dtype) and keras.backend.standardize_dtype(variable.dtype) == "bfloat16":
        return numpy.asarray(keras.ops.convert_to_numpy(keras.ops.cast(variable.value, "float32")))
    return numpy.asarray(keras.ops.convert_to_numpy(variable.value))


def describe(variables: Sequence[Any]) -> list[str]:
    # Uses the name and not the path, because Keras numbers layers by how many the process has created.
    return [f"{x.name} {tuple(x.shape)} {x.dtype}" for x in variables]


def broadcast(session: Session, variables: Sequence[Any], where: str, root: int = 0) -> None:
    """Assigns the values of the rank `root` to the variables of all ranks. Collective."""
    if session.size == 1 or not variables:
        return
    agree(session, where, describe(variables))
    held = [values_of(x) for x in variables]
    text = b"".join(x.tobytes() for x in held)
    words = numpy.zeros(max(1, -(-len(text) // 4)), numpy.int32)
    octets = words.view(numpy.uint8)
    octets[: len(text)] = numpy.frombuffer(text, numpy.uint8)
    session.broadcast(words, root)
    at = 0
    for variable, x in zip(variables, held, strict=True):
        if session.rank != root:
            variable.assign(numpy.frombuffer(octets[at : at + x.nbytes].tobytes(), x.dtype).reshape(x.shape))
        at += x.nbytes


def average(session: Session, variables: Sequence[Any]) -> None:
    """Assigns the averages over all ranks to the variables. Collective."""
    if session.size == 1 or not variables:
        return
    held = [values_of(x).astype(numpy.float64) for x in variables]
    line = numpy.concatenate([x.reshape(-1) for x in held])
    session.all_reduce(line, "mean")
    at = 0
    for variable, x in zip(variables, held, strict=True):
        variable.assign(line[at : at + x.size].reshape(x.shape).astype(numpy.float32))
        at += x.size

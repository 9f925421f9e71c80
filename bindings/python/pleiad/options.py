"""Options by name, as text: the C++ core knows them, and says what is wrong with one."""

from collections.abc import Mapping
from typing import Any

import numpy

from pleiad import _core
from pleiad.errors import InvalidArgument

DTYPES = ("float32", "float64", "int32", "int64")


class Updater:
    """How an add changes a table: a rule's name and its settings.

    >>> import pleiad
    >>> pleiad.Updater("momentum", learning_rate=0.1, momentum=0.9)
    Updater('momentum', learning_rate=0.1, momentum=0.9)
    """

    def __init__(self, rule: str = "sum", **fields: Any) -> None:
        self.rule = rule
        self.fields = fields

    def __repr__(self) -> str:
        words = [repr(self.rule), *(f"{name}={value!r}" for name, value in self.fields.items())]
        return f"Updater({', '.join(words)})"


def text_of(value: Any) -> str:
    """A value as the core reads it."""
    if isinstance(value, bool | numpy.bool_):
        return "true" if value else "false"
    if isinstance(value, float | numpy.floating):
        return repr(float(value))
    return str(value)


def session_options(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(value) for name, value in given.items() if value is not None}


def updater_options(updater: "str | Mapping[str, Any] | Updater") -> dict[str, str]:
    """`updater` as options of a table."""
    if isinstance(updater, str):
        return {"updater": updater}
    if isinstance(updater, Updater):
        rule, fields = updater.rule, dict(updater.fields)
    elif isinstance(updater, Mapping):
        fields = dict(updater)
        rule = fields.pop("rule", "sum")
    else:
        raise InvalidArgument(f"updater: expected a name, a dict or pleiad.Updater; received {type(updater).__name__}")
    known = [name for name, _, _ in _core.updater_options()]
    options = {"updater": text_of(rule)}
    for name, value in fields.items():
        bare = "lambda" if name == "lambda_" else name
        if bare not in known:
            raise InvalidArgument(f'unknown field "{name}" of updater "{rule}"; known: {", ".join(known)}')
        options[f"updater.{bare}"] = text_of(value)
    return options


def dtype_name(dtype: Any, initial: Any = None) -> str:
    """The table's element type by name: what was asked for, else that of the initial values, else float32."""
    if dtype is None:
        dtype = getattr(initial, "dtype", None)
        if dtype is None:
            return "float32"
    # torch.float32 calls itself so; whatever NumPy knows it by its name.
    name = str(dtype).rpartition(".")[2]
    if name not in DTYPES:
        try:
            name = numpy.dtype(dtype).name
        except TypeError:
            pass
    if name in DTYPES:
        return name
    fix = ""
    if "float16" in name:
        fix = "; hold such parameters in a float32 table: pleiad.to_float32(x), pleiad.from_float32(values, out=x)"
    raise InvalidArgument(f"dtype: expected {', '.join(DTYPES[:-1])} or {DTYPES[-1]}; received {name}{fix}")

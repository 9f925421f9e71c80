"""Options as text by name. The C++ core declares them and checks their values."""

from collections.abc import Mapping
from typing import Any

import numpy

from pleiad import _core
from pleiad.errors import InvalidArgument

DTYPES = ("float32", "float64", "int32", "int64")


class Updater:
    """An update rule and its settings: how an add changes the values of a table.

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
    """Formats a value as the core parses it."""
    if isinstance(value, bool | numpy.bool_):
        return "true" if value else "false"
    if isinstance(value, float | numpy.floating):
        return repr(float(value))
    return str(value)


def session_options(given: Mapping[str, Any]) -> dict[str, str]:
    """Formats the options of a session that are not None."""
    return {name: text_of(value) for name, value in given.items() if value is not None}


def updater_options(updater: "str | Mapping[str, Any] | Updater") -> dict[str, str]:
    """Converts `updater` to table options."""
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
    """Returns the name of a table's element type: `dtype` if given, else that of the initial values, else float32."""
    if dtype is None:
        dtype = getattr(initial, "dtype", None)
        if dtype is None:
            return "float32"
    # PyTorch's name is "torch.float32"; NumPy knows the other types by their names.
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
        fix = "; store such parameters in a float32 table with pleiad.to_float32(x) and pleiad.from_float32(values, out=x)"
    raise InvalidArgument(f"dtype: expected {', '.join(DTYPES[:-1])} or {DTYPES[-1]}; received {name}{fix}")

"""The `repr` of objects in the words of their constructors."""

import inspect
from collections.abc import Mapping
from typing import Any


class Shown:
    """A value whose `repr` is a given text, such as a summary of a large argument."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def constructor_text(kind: Any, values: Mapping[str, Any]) -> str:
    """Returns the call of a constructor as text, such as "Dense(units=4)". Leaves out arguments that equal their defaults or are
    missing from `values`."""
    words = []
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words += [f"{key}={value!r}" for key, value in values.get(name, {}).items()]
        elif name in values and not _is_default(values[name], parameter.default):
            words.append(f"{name}={values[name]!r}")
    return f"{kind.__name__}({', '.join(words)})"


def _is_default(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    if value is default:
        return True
    return type(value) in (bool, int, float, str, tuple, list) and type(default) is not bool and bool(value == default)

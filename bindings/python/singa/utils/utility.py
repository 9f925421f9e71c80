"""Sets fields of messages by name, and generates unique names."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Names in scripts of fields that have another name in the messages.
ALIASES = {"batch_size": "batchsize"}

_counts: dict[str, int] = {}


def generate_name(label: str, withnumber: bool = True) -> str:
    """Generates conv1, conv2 and so on; without a number, returns the label."""
    if not withnumber:
        return label
    _counts[label] = _counts.get(label, 0) + 1
    return f"{label}{_counts[label]}"


generateName = generate_name  # noqa: N816 - as older scripts have it


def refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises a TypeError for the first unknown name, with the closest known one."""
    names = sorted(set(known))
    for name in given:
        if name in names:
            continue
        near = difflib.get_close_matches(name, names, 1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise TypeError(f'{where}: unknown argument "{name}"{hint} (known: {", ".join(names)})')


def arguments_of(*functions: Callable[..., Any]) -> set[str]:
    """Returns the names of arguments that one of these functions accepts."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {p.name for each in functions for p in inspect.signature(each).parameters.values() if p.kind in named}
    return found - {"self"}


def arguments_of_class(kind: type) -> set[str]:
    """Returns the names of arguments that a class accepts, or one to which it passes the others on."""
    return arguments_of(*(vars(each)["__init__"] for each in kind.__mro__[:-1] if "__init__" in vars(each)))


def whole(where: str, value: Any, least: int = 1) -> int:
    """Checks that an argument is an integer of at least `least`, and returns it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{where}: expected a whole number; received {value!r}")
    if value < least:
        raise ValueError(f"{where}: expected {least} or more; received {value}")
    return int(value)


def field_names(message: Any) -> list[str]:
    return [field.name for field in message.DESCRIPTOR.fields]


def setval(message: Any, **fields: Any) -> None:
    """Sets fields by name: numbers, texts, lists for repeated fields, and copies of messages. None leaves a field unchanged."""
    known = field_names(message)
    fields = {ALIASES.get(name, name): value for name, value in fields.items()}
    where = message.DESCRIPTOR.name
    refuse_unknown(where, fields, known)
    for name, value in fields.items():
        if value is not None:
            _set(message, name, value, where)


def _set(message: Any, name: str, value: Any, where: str) -> None:
    field = message.DESCRIPTOR.fields_by_name[name]
    own = getattr(message, name)
    try:
        if hasattr(own, "append") or hasattr(own, "add"):
            del own[:]
            if field.message_type is not None:
                own.extend(value if isinstance(value, list | tuple) else [value])
            else:
                single = isinstance(value, str) or not isinstance(value, Iterable)
                own.extend([value] if single else list(value))
        elif field.message_type is not None:
            if isinstance(value, Mapping):
                setval(own, **value)
            else:
                own.CopyFrom(getattr(value, "proto", value))
        elif field.cpp_type == field.CPPTYPE_FLOAT:
            setattr(message, name, float(value))
        else:
            setattr(message, name, value)
    except (TypeError, ValueError) as problem:
        raise TypeError(f"{where}.{name}: cannot be {value!r}: {problem}") from problem

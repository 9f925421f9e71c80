"""Setting the fields of messages by name, and names that nobody has yet."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# What scripts call fields that have another name.
ALIASES = {"batch_size": "batchsize"}

_counts: dict[str, int] = {}


def generate_name(label: str, withnumber: bool = True) -> str:
    """conv1, conv2 and so on; without a number just the label."""
    if not withnumber:
        return label
    _counts[label] = _counts.get(label, 0) + 1
    return f"{label}{_counts[label]}"


generateName = generate_name  # noqa: N816 - as older scripts have it


def refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """A TypeError for the first name that is not known, with the nearest that is."""
    names = sorted(set(known))
    for name in given:
        if name in names:
            continue
        near = difflib.get_close_matches(name, names, 1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise TypeError(f'{where}: unknown argument "{name}"{hint} (known: {", ".join(names)})')


def arguments_of(*functions: Callable[..., Any]) -> set[str]:
    """The names that can be given to one of these."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {p.name for each in functions for p in inspect.signature(each).parameters.values() if p.kind in named}
    return found - {"self"}


def arguments_of_class(kind: type) -> set[str]:
    """The names that can be given to a class, or to one that it hands the others on to."""
    return arguments_of(*(vars(each)["__init__"] for each in kind.__mro__[:-1] if "__init__" in vars(each)))


def whole(where: str, value: Any, least: int = 1) -> int:
    """A whole number that was given, checked."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{where}: expected a whole number; received {value!r}")
    if value < least:
        raise ValueError(f"{where}: expected {least} or more; received {value}")
    return int(value)


def field_names(message: Any) -> list[str]:
    return [field.name for field in message.DESCRIPTOR.fields]


def setval(message: Any, **fields: Any) -> None:
    """Sets fields by name: numbers and texts, lists for repeated ones, messages by copy. None leaves a field as it is."""
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

"""The classes that a YAML file may create, and how they receive their fields."""

import copy
import difflib
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, TypeVar

from pleiad.errors import InvalidArgument

T = TypeVar("T", bound=type)

_classes: dict[str, type] = {}

REQUIRED: Any = object()


class FieldError(InvalidArgument):
    """A field has a value that cannot take effect. `located`: the message already starts with the file and the line."""

    def __init__(self, field: str, text: str, located: bool = False) -> None:
        super().__init__(text)
        self.field = field
        self.located = located


def register(cls: T) -> T:
    """Allows YAML files to create a class by its name. Subclasses of Component are registered automatically."""
    _classes[cls.__name__] = cls
    return cls


def register_as(name: str, cls: type) -> None:
    """Allows YAML files to create a class by another name than its own."""
    _classes[name] = cls


def known() -> list[str]:
    return sorted(_classes)


def nearest(word: str, names: "list[str]") -> str:
    close = difflib.get_close_matches(word, names, 1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def find(path: str) -> type:
    """Finds a class by "neon.models.convnet_dist.ConvnetDist", "layers.ConvLayer" or "my_module.MyLayer"; only the last part of the
    name counts."""
    name = path.rpartition(".")[2]
    if name in _classes:
        return _classes[name]
    raise InvalidArgument(f'unknown class "{path}"; known: {", ".join(known())}{nearest(name, known())}')


class Component:
    """An object that a YAML file creates. `fields` holds its settings with their defaults, or REQUIRED. Every field takes effect or
    is refused: a class never accepts a field that it does not read."""

    fields: ClassVar[Mapping[str, Any]] = {}
    #: Other names of fields, as in older files: {"nfm": "nifm"}.
    spellings: ClassVar[Mapping[str, str]] = {}
    _own: ClassVar[Mapping[str, Any]] = {}
    _file = ""
    _lines: ClassVar[Mapping[str, int]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._own = dict(vars(cls).get("fields", {}))
        merged: dict[str, Any] = {}
        for base in reversed(cls.__mro__):  # only what each class defines itself
            merged.update(vars(base).get("_own", {}))
        cls.fields = merged
        register(cls)

    def __init__(self, **given: Any) -> None:
        where = type(self).__name__
        for old, new in self.spellings.items():
            if old in given and new in given:
                raise FieldError(old, f'{where}: "{old}" and "{new}" are names of the same field; remove one of them')
            if old in given:
                given[new] = given.pop(old)
        names = sorted({*self.fields, *self.spellings})
        for name in given:
            if name not in self.fields:
                raise FieldError(name, f'{where} has no "{name}"; known: {", ".join(names)}{nearest(name, names)}')
        missing = [name for name, usual in self.fields.items() if usual is REQUIRED and name not in given]
        if missing:
            raise InvalidArgument(f"{where} needs {', '.join(missing)}; received {', '.join(given) or 'nothing'}")
        #: The fields that the file or the caller passed.
        self.given = frozenset(given)
        for name, usual in self.fields.items():
            setattr(self, name, _like(usual, given[name], where, name) if name in given else copy.deepcopy(usual))
        self.dist_flag: bool = bool(getattr(self, "dist_flag", False))

    def located(self, file: str, line: int, lines: "Mapping[str, int]") -> None:
        """Records where the object and its fields stand in the file. The loader calls it."""
        self._file = file
        self._lines = {"": line, **lines, **{new: lines[old] for old, new in self.spellings.items() if old in lines}}  # type: ignore[misc]

    def refuse(self, field: str, text: str) -> NoReturn:
        """Raises an error about a field, with its line if the object comes from a file."""
        message = f"{type(self).__name__}.{field}: {text}"
        line = self._lines.get(field, self._lines.get(""))
        if line is None:
            raise FieldError(field, message)
        raise FieldError(field, f"{self._file}:{line}: {message}", located=True)

    def only(self, field: str, value: Any, names: "tuple[str, ...]") -> "dict[str, Any]":
        """Returns a copy of a mapping in the file, whose keys must be among `names`."""
        if not isinstance(value, Mapping):
            self.refuse(field, f"expected {{{', '.join(names)}}}; received {value!r}")
        for name in value:
            if name not in names:
                self.refuse(
                    field, f'has no "{name}"; known: {", ".join(names)}{nearest(str(name), [str(n) for n in names])}'
                )
        return dict(value)

    def number(self, field: str, name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
        """Returns a finite number in [low, high]. Also accepts text, because YAML reads 1e-3 as text."""
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number) or not low <= number <= high:
            limits = (
                ""
                if low == -math.inf
                else f" of at least {low:g}" + ("" if high == math.inf else f", at most {high:g}")
            )
            self.refuse(field, f"{name}: expected a number{limits}; received {value!r}")
        return number

    def whole(self, field: str, value: Any, low: int) -> int:
        """Returns an integer of at least `low`."""
        number = self.number(field, "number", value, low)
        if number != int(number):
            self.refuse(field, f"expected an integer; received {value!r}")
        return int(number)


def _like(usual: Any, value: Any, where: str, name: str) -> Any:
    """Converts the value to the type of the default. YAML reads 1e-3 as text."""
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise FieldError(name, f"{where}.{name}: expected true or false; received {value!r}")
    elif isinstance(usual, int | float):
        try:
            if isinstance(value, bool):
                raise ValueError
            number = float(value)
            whole = isinstance(usual, int)
            if not math.isfinite(number) or (whole and number != int(number)):
                raise ValueError
            value = int(value) if whole and not isinstance(value, str) else int(number) if whole else number
        except (TypeError, ValueError, OverflowError):
            kind = "whole number" if isinstance(usual, int) else "number"
            raise FieldError(name, f"{where}.{name}: expected a {kind}; received {value!r}") from None
    elif isinstance(usual, str) and not isinstance(value, str):
        raise FieldError(name, f"{where}.{name}: expected a word; received {value!r}")
    return value
